"""`exec-server …` as a subprocess, as somebody types it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from exec_server import cli
from tests.support.client import PATIENCE_S
from tests.support.program import ROOT

PROGRAM = [sys.executable, "-m", "exec_server"]
LINE_LIMIT = 1 << 20


def environ(url: str | None, **more: str) -> dict[str, str]:
    """The environment of a command line: nothing of ours that names a server."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("EXEC_SERVER_")}
    named = {} if url is None else {"EXEC_SERVER_URL": url}
    return {**ours, "PYTHONPATH": str(ROOT), **named, **more}


class Done(NamedTuple):
    status: int
    stdout: bytes
    stderr: bytes


class Command:
    """A command line that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.process = process
        self.pid = process.pid
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr

    async def line(self) -> bytes:
        """The next line of its output."""
        return await asyncio.wait_for(self.stdout.readline(), PATIENCE_S)

    async def complaint(self) -> str:
        """The next line on its stderr."""
        return (await asyncio.wait_for(self.stderr.readline(), PATIENCE_S)).decode()

    async def wait(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)

    async def done(self, input: bytes | None = None) -> Done:
        """All the rest."""
        out, err = await asyncio.wait_for(self.process.communicate(input), PATIENCE_S)
        assert self.process.returncode is not None
        assert b"Traceback" not in err, err.decode()
        return Done(self.process.returncode, out, err)


@asynccontextmanager
async def running(
    url: str | None, *argv: str, env: dict[str, str] | None = None, preexec: Callable[[], Any] | None = None
) -> AsyncIterator[Command]:
    """A command line that talks to the server at `url`; it does not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environ(url, **env or {}),
        preexec_fn=preexec,
        start_new_session=True,
        limit=LINE_LIMIT,
    )
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()


async def typed(url: str | None, *argv: str, input: bytes = b"", env: dict[str, str] | None = None) -> Done:
    """A command line, to its end."""
    async with running(url, *argv, env=env) as command:
        return await command.done(input)


class Inside:
    """Command lines within this process, which is quicker: for what needs no input, terminal or signals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture

    def type(self, url: str | None, *argv: str, env: dict[str, str] | None = None) -> Done:
        """One of them, to its end."""
        self._capture.readouterr()
        with self._monkeypatch.context() as patch:
            for name in [*os.environ]:
                if name.startswith("EXEC_SERVER_"):
                    patch.delenv(name)
            for name, value in environ(url, **env or {}).items():
                patch.setenv(name, value)
            try:
                status = cli.main(argv)
            finally:
                out, err = self._capture.readouterr()
        assert b"Traceback" not in err, err.decode()
        return Done(status, out, err)


def one_line(stderr: bytes) -> str:
    """The only line on stderr, without the name of the program before it."""
    lines = stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("exec-server: ")
    return lines[0].removeprefix("exec-server: ")
