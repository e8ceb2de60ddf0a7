"""The program `exec-server mcp` on stdio, with the official client, and when somebody leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import LoggingMessageNotificationParams

from exec_server.mcp.tools import TOOLS
from tests.exec_server.mcp.served import call, program, refused
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import ROOT, Facts, alive, eventually
from tests.support.program import program as server_program

pytestmark = pytest.mark.anyio
IDLE_RSS = 70 << 20
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.slow)])
async def test_the_official_client_calls_every_tool(tmp_path: Path, mode: str) -> None:
    """Lost: agents, which all speak through such a client."""
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "dot.png")
    async with McpClient(program("--workspace", str(tmp_path)), mode=mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        called = {
            "exec_command": {"cmd": "cat", "tty": True, "yield_time_ms": 250},
            "write_stdin": {"chars": "hello\n", "yield_time_ms": 250},
            "read_screen": {},
            "list_processes": {},
            "terminate_process": {},
            "write_file": {"path": "file", "content": "text\n"},
            "read_file": {"path": "file"},
            "edit_file": {"path": "file", "old_text": "text", "new_text": "words"},
            "list_directory": {},
            "search_files": {"pattern": "words"},
            "view_image": {"path": "dot.png"},
        }
        assert listed == set(called) == set(TOOLS)
        process_id = None
        for tool, arguments in called.items():
            more: dict[str, Any] = {} if process_id is None else {"process_id": process_id}
            takes = tool in ("write_stdin", "read_screen", "terminate_process")
            found = await call(client, tool, **arguments, **(more if takes else {}))
            process_id = found.get("process_id") or process_id
        assert tmp_path.joinpath("file").read_text() == "words\n"


class Raw:
    """The program with its pipes, for what no client of good manners does."""

    def __init__(self, popen: asyncio.subprocess.Process) -> None:
        self.popen = popen
        assert popen.stdin is not None and popen.stdout is not None
        self.stdin, self.stdout = popen.stdin, popen.stdout

    async def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await self.answer(number)

    async def send(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        await self.stdin.drain()

    async def answer(self, number: int) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                message: dict[str, Any] = json.loads(await self.stdout.readline())
                if message.get("id") == number:
                    return message


@contextlib.asynccontextmanager
async def raw(*flags: str) -> AsyncIterator[Raw]:
    popen = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "exec_server", "mcp", *flags,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, limit=64 << 20,
    )  # fmt: skip
    ours = Raw(popen)
    try:
        assert "result" in await ours.ask(0, "initialize", **HELLO)
        await ours.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield ours
    finally:
        if popen.returncode is None:
            popen.kill()
        await popen.wait()
        ours.stdin.close()


async def started(ours: Raw, tmp_path: Path) -> int:
    """A command that runs for long; its pid."""
    pid = tmp_path / "pid"
    call = {"name": "exec_command", "arguments": {"cmd": f"echo $$ > {pid}; exec sleep 1000", "yield_time_ms": 30_000}}
    await ours.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    await eventually(lambda: pid.exists() and pid.read_text().strip(), "it has begun")
    return int(pid.read_text())


@pytest.mark.parametrize(
    "how", ["end of input", "SIGKILL", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGTERM", "SIGINT"))]
)
async def test_nothing_is_left_behind(tmp_path: Path, how: str) -> None:
    """A client leaves in the middle of a call, or the program is ended. Lost: a machine full of forgotten processes."""
    async with raw() as ours:
        pid = await started(ours, tmp_path)
        if how == "end of input":
            ours.stdin.close()
        else:
            ours.popen.send_signal(signal.Signals[how])
        async with asyncio.timeout(20):
            status = await ours.popen.wait()
        assert status == (-signal.SIGKILL if how == "SIGKILL" else 0)
        await eventually(lambda: not alive(pid), "the command is gone")


@pytest.mark.slow
async def test_a_client_that_reads_no_more(tmp_path: Path) -> None:
    """Lost: a program that nobody can hear runs on."""
    async with raw() as ours:
        transport = ours.popen._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        transport.close()
        for number in range(3):
            with contextlib.suppress(ConnectionError):
                await ours.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        async with asyncio.timeout(20):
            assert await ours.popen.wait() == 0


async def test_messages_that_are_none_cost_only_themselves() -> None:
    """Lost: the connection, to one bad line."""
    async with raw() as ours:
        for line in (b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"jsonrpc":"2.0","id":5}', b""):
            ours.stdin.write(line + b"\n")
        ours.stdin.write(
            b'{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"x":"' + b"y" * (17 << 20) + b'"}}\n'
        )
        await ours.stdin.drain()
        assert "longer than 16777216 bytes" in (await ours.answer(9))["error"]["message"]
        assert (await ours.ask(10, "ping"))["result"] == {}


async def test_an_idle_server_is_small() -> None:
    """Lost: memory, on a machine where each of ten agents has such a server."""
    async with raw() as ours:
        await ours.ask(1, "tools/list")
        assert Facts(ours.popen.pid).rss() < IDLE_RSS


async def test_a_server_that_goes_away_and_comes_back() -> None:
    """Lost: an agent that has to be restarted because a server was."""
    said: list[LoggingMessageNotificationParams] = []

    async def hear(params: LoggingMessageNotificationParams) -> None:
        said.append(params)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        with server_program() as first:
            async with McpClient(program("--url", first.url), mode="legacy", logging_callback=hear) as client:
                found = await call(client, "exec_command", cmd="echo up; sleep 1000", yield_time_ms=500)
                first.popen.kill()
                first.popen.wait()
                await eventually(lambda: any("cut" in str(each.data) for each in said), "a person is told")
                with server_program("--listen", first.url) as second:
                    assert second.url == first.url
                    await eventually(lambda: any(each.level == "error" for each in said), "the session is lost", 60)
                    said_of = await refused(client, "write_stdin", process_id=found["process_id"])
                    assert "unknown process id" in said_of
                    assert (await call(client, "exec_command", cmd="echo again"))["output"] == "again\n"


async def test_a_cut_connection_does_not_show() -> None:
    """Lost: output, or the process itself, when a network changes."""
    with server_program() as server:
        async with (
            CuttingProxy(server.url, [30_000]) as proxy,
            McpClient(program("--url", proxy.url), mode="legacy") as client,
        ):
            found = await call(client, "exec_command", cmd="seq 20000; echo end", yield_time_ms=20_000)
            assert found["output"].endswith("end\n") and found["total_bytes"] == 108_898 and found["exit_code"] == 0
            assert proxy.cuts == 1


@pytest.mark.slow
async def test_a_server_that_is_not_there() -> None:
    """Lost: what a person has to put right."""
    async with McpClient(program("--url", "ws://127.0.0.1:9"), mode="legacy") as client:
        assert len((await client.list_tools()).tools) == len(TOOLS)
        assert "The machine cannot be reached" in await refused(client, "exec_command", cmd="true")


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--workspace", "/no/such"], "--workspace /no/such is no folder"),
        (["--environment", "x", "--url", "local"], "exclude each other"),
        (["--http", "0.0.0.0:0"], "whoever reaches it could run commands"),
    ],
)
def test_settings_that_cannot_be_used(flags: list[str], said: str, tmp_path: Path) -> None:
    """Lost: the one line that a person needs, in a trace of the program."""
    must_refuse(flags, said, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, said",
    [
        (["--sandbox", "most"], "--sandbox"),
        (["--root", "relative", "--url", "ws://127.0.0.1:9"], "give the absolute path"),
        (["--environment", "nowhere"], "there is no environment 'nowhere'"),
        (["--ws-token-file", "x"], "need --http"),
        (["--http", "here"], "expected `ws://IP:PORT`"),
        (["--http", "127.0.0.1:0", "--ws-auth", "secret"], "is not one of capability-token"),
        (["--http", "127.0.0.1:0", "--ws-token-file", "/x"], "require `--ws-auth"),
    ],
)
def test_more_settings_that_cannot_be_used(flags: list[str], said: str, tmp_path: Path) -> None:
    must_refuse(flags, said, tmp_path)


def must_refuse(flags: list[str], said: str, folder: Path) -> None:
    """The program ends at once, with one line that says why."""
    done = subprocess.run(
        [sys.executable, "-m", "exec_server", "mcp", *flags],
        input=b"", capture_output=True, cwd=folder, timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT), "EXEC_SERVER_ENVIRONMENTS": str(folder / "none")},
    )  # fmt: skip
    text = done.stderr.decode()
    assert done.returncode in (1, 2) and said in text and text.count("\n") == 1, text
