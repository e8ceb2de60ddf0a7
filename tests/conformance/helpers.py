"""What scenarios need beside the wire: commands, and ways to see that a process is gone."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.conformance.dialogue import ANY, Dialogue, text_of
from tests.conformance.wires import PATIENCE_S

PATH = "/usr/local/bin:/usr/bin:/bin"

json_only = pytest.mark.parametrize("encoding", ["json"], indirect=True)
"""For tests of what is particular to JSON: text, lines, clients that know nothing else."""


def command(process_id: str, *argv: str, **params: Any) -> dict[str, Any]:
    """Params of a start on pipes, in the root folder."""
    return {
        "processId": process_id,
        "argv": list(argv),
        "cwd": "file:///",
        "env": {"PATH": PATH},
        "tty": False,
    } | params


def shell(process_id: str, script: str, **params: Any) -> dict[str, Any]:
    return command(process_id, "/bin/sh", "-c", script, **params)


async def printed(talk: Dialogue, process_id: str, length: int = 1) -> bytes:
    """At least so many bytes of a process's output, as notifications bring it."""
    got = b""
    while len(got) < length:
        message = await talk.expect({"method": "process/output", "params": {"processId": process_id}})
        got += text_of([message["params"]])
    return got


async def exited(talk: Dialogue, process_id: str) -> dict[str, Any]:
    message = await talk.expect({"method": "process/exited", "params": {"processId": process_id}})
    params: dict[str, Any] = message["params"]
    return params


async def closed(talk: Dialogue, process_id: str) -> None:
    await talk.expect({"method": "process/closed", "params": {"processId": process_id, "seq": ANY}})


class Death:
    """The end of a process that need not be our child, by its pid (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    async def come(self) -> None:
        """Wait until the process has ended."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._fd, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE_S)
        finally:
            loop.remove_reader(self._fd)
            os.close(self._fd)


def death_of(text: bytes) -> Death:
    """The end of the process whose pid this output is."""
    return Death(int(text.split()[0]))


async def until_forgotten(talk: Dialogue, process_id: str) -> None:
    """Ask until the record of a process is dropped; nothing tells it by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while "result" in await talk.call("process/read", processId=process_id):
            pass
