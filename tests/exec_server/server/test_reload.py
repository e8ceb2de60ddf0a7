"""SIGHUP: what changes in a server that runs, what does not, and what it says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.client import Client, connected, expect_error
from tests.support.client import session as client_session
from tests.support.program import Program, eventually, program

pytestmark = pytest.mark.anyio

OLD, NEW = "an-old-token-of-some-length", "a-new-token-of-some-length"  # shorter ones are warned of

SETTINGS = """
ws_auth = "capability-token"
ws_token_file = "{folder}/token"
log_level = "info"
"""


class Hup:
    """A server with a file of settings, and what it says on stderr."""

    def __init__(self, server: Program, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.stderr = folder / "stderr"

    def write(self, more: str = "", token: str | None = None) -> None:
        (self.folder / "c.toml").write_text(SETTINGS.format(folder=self.folder) + more)
        if token is not None:
            (self.folder / "token").write_text(token)

    async def reload(self, until: str) -> str:
        """Send SIGHUP, and wait until it says this; all that it has said since."""
        await eventually(lambda: "listening on" in self.stderr.read_text(), "it has said where it listens")
        before = len(self.stderr.read_text())
        self.server.popen.send_signal(signal.SIGHUP)
        await eventually(lambda: until in self.stderr.read_text()[before:], f"the server says {until!r}")
        return self.stderr.read_text()[before:]

    def client(self, token: str) -> Any:
        return client_session(self.server.url, additional_headers={"Authorization": f"Bearer {token}"})


@contextmanager
def reloading(folder: Path) -> Iterator[Hup]:
    (folder / "token").write_text(OLD)
    (folder / "c.toml").write_text(SETTINGS.format(folder=folder))
    with (folder / "stderr").open("wb") as stderr, program("--config", str(folder / "c.toml"), stderr=stderr) as server:
        yield Hup(server, folder)


async def test_connections_end_whose_token_is_no_longer_good(tmp_path: Path) -> None:
    """Lost: a way to throw somebody out; or everybody's sessions, each time that a setting changes."""
    with reloading(tmp_path) as hup:
        async with hup.client(OLD) as client:
            await hup.reload("reloaded; 0 connections ended")
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
            hup.write(token=NEW)
            await hup.reload("reloaded; 1 connections ended")
            await asyncio.wait_for(client.lost.wait(), 30)
            assert client.link.socket.close_code == 1008
        with pytest.raises(InvalidStatus):
            async with hup.client(OLD):
                pass
        async with hup.client(NEW) as client:
            await hup.reload("reloaded; 0 connections ended")
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
        said = hup.stderr.read_text()
        assert "Bearer" not in said


async def test_limits_hold_for_sessions_that_are_there(tmp_path: Path) -> None:
    """Lost: a limit, for whoever was there before it."""
    with reloading(tmp_path) as hup:
        async with hup.client(OLD) as client:
            await client.start("first", "/bin/sleep", "1000")
            hup.write("max_processes_per_session = 1\n")
            await hup.reload("reloaded")
            error = await expect_error(client.start("second", "/bin/sleep", "1000"))
            assert error.data["kind"] == "limitReached"


async def test_a_mistake_changes_nothing(tmp_path: Path) -> None:
    """Lost: a server that runs, to a typing error."""
    with reloading(tmp_path) as hup:
        for wrong in ("max_procesess_per_session = 1\n", "session_ttl = -1\n", "\nretain_head =", 'tls_cert = "/x"\n'):
            hup.write(wrong, token=NEW)
            said = await hup.reload("nothing was reloaded: ")
            assert [line for line in said.splitlines() if "nothing was reloaded" in line] == said.splitlines()[-1:]
        os.unlink(tmp_path / "token")
        hup.write()
        assert "failed to read websocket auth secret" in await hup.reload("nothing was reloaded: ")
        async with hup.client(OLD) as client:
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"


async def test_what_cannot_be_reloaded_is_said(tmp_path: Path) -> None:
    """Lost: why a change has no effect."""
    with reloading(tmp_path) as hup:
        hup.write('encoding = "msgpack"\nrecord = "/x"\nlog_level = "warning"\n'.replace('log_level = "warning"\n', ""))
        said = await hup.reload("reloaded")
        assert "--encoding is changed only by a restart" in said
        assert "--record is changed only by a restart" in said


async def test_a_flag_wins_after_a_reload_too(tmp_path: Path) -> None:
    """Lost: which source counts, after the first SIGHUP."""
    (tmp_path / "c.toml").write_text("max_processes_per_session = 5\n")
    flags = ["--config", str(tmp_path / "c.toml"), "--max-processes-per-session", "1", "--log-level", "info"]
    with program(*flags, stderr=subprocess.PIPE) as server:
        async with connected(server.url) as client:
            await client.initialize()
            server.popen.send_signal(signal.SIGHUP)
            await asyncio.to_thread(read_until, server, b"reloaded")
            await limited(client)


def read_until(server: Program, text: bytes) -> None:
    assert server.popen.stderr is not None
    for line in server.popen.stderr:
        if text in line:
            return
    raise AssertionError(f"stderr has ended without {text!r}")


async def limited(client: Client) -> None:
    await client.start("first", "/bin/sleep", "1000")
    assert (await expect_error(client.start("second", "/bin/true"))).data["kind"] == "limitReached"
