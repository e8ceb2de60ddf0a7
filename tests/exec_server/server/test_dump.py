"""A look into a server that runs, by signal or by command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from exec_server.server.dump import address_of
from tests.support.client import session
from tests.support.program import ROOT, command, eventually, launched, program

pytestmark = pytest.mark.anyio


def debug_dump(pid: int, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = command("debug", "dump", str(pid), *flags)
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=50)


async def dumped(pid: int, *flags: str) -> dict[str, Any]:
    ended = await asyncio.to_thread(debug_dump, pid, *flags)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


async def test_the_command_shows_what_the_document_shows() -> None:
    """Lost: a look into a server that does not do what it should."""
    shown = (ROOT / "docs" / "operation.md").read_text().partition("<!-- dump -->\n```json\n")[2].partition("```")[0]
    pattern = re.sub(r"\s+", "", shown)
    pattern = ".*".join(re.escape(part) for part in pattern.split("…"))
    with program() as server:
        async with session(server.url) as client:
            await client.start("build", "/bin/sleep", "1000")
            found = await dumped(server.pid)
            assert re.fullmatch(pattern, json.dumps(found, separators=(",", ":")), re.DOTALL), found
            assert found["pid"] == server.pid


async def test_no_secrets_unless_they_are_asked_for() -> None:
    """Lost: the power over a session, or what is in a command line, to whoever sees a dump."""
    with program() as server:
        async with session(server.url) as client:
            await client.start("p", "/bin/sleep", "1000", "0", env={"A": "SECRETenv"})
            await client.run("q", "/bin/echo", "SECRETarg")
            without, with_argv = await dumped(server.pid), await dumped(server.pid, "--argv")
            for each in (without, with_argv):
                assert client.session_id not in json.dumps(each)
                assert "SECRETenv" not in json.dumps(each)
            assert "SECRETarg" not in json.dumps(without)
            processes = with_argv["sessions"][0]["processes"]
            assert [each["argv"] for each in processes] == [["/bin/sleep", "1000", "0"], ["/bin/echo", "SECRETarg"]]
            assert [each["state"] for each in processes] == ["running", "closed"]


async def test_the_signal_alone_dumps_to_the_log(tmp_path: Path) -> None:
    """Lost: a dump, where nothing but a signal can be sent; or the server, which would die of it."""
    path = tmp_path / "stderr"
    with path.open("wb") as stderr, program(stderr=stderr) as server:
        async with session(server.url) as client:
            await client.start("p", "/bin/sleep", "1000")
            server.popen.send_signal(signal.SIGUSR1)
            await eventually(lambda: '"dump {' in path.read_text(), "the log has the dump")
            line = json.loads(next(each for each in path.read_text().splitlines() if '"dump {' in each))
            found = json.loads(line["message"].removeprefix("dump "))
            assert found["sessions"][0]["processes"][0]["process"] == "p"
            assert "argv" not in found["sessions"][0]["processes"][0]


async def test_who_asks_and_says_nothing(tmp_path: Path) -> None:
    """Lost: every later dump, to one who does not read."""
    path = tmp_path / "stderr"
    with path.open("wb") as stderr, program(stderr=stderr) as server:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address_of(server.pid))
            listener.listen()
            for said in (b"", b"nonsense\n"):
                server.popen.send_signal(signal.SIGUSR1)
                connection, _ = await asyncio.to_thread(listener.accept)
                connection.sendall(said)
                connection.close()
                await eventually(lambda: "nothing was dumped" in path.read_text(), "it says so")
                path.write_text("")
        assert (await dumped(server.pid))["pid"] == server.pid


def test_a_process_that_is_no_server() -> None:
    """Lost: some other program, which would die of the signal."""
    with launched(["sleep", "1000"]) as process:
        for pid in (process.pid, 2**22 + 1):
            ended = debug_dump(pid)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert ended.stderr == f"Error: process {pid} is no exec-server that runs\n"
        assert process.poll() is None
    assert not os.path.exists(f"/proc/{2**22 + 1}")
