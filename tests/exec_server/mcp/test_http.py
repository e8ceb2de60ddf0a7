"""Streamable HTTP: who may come in, whose session is whose, and what a cut costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from tests.exec_server.mcp.served import call, refused, running
from tests.support.program import ROOT, alive, eventually

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-some-length"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@contextlib.contextmanager
def http_program(*flags: str, port: int = 0) -> Iterator[str]:
    """The URL of `exec-server mcp --http`, on any free port by default."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "exec_server", "mcp", "--http", f"127.0.0.1:{port}", *flags],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        assert popen.stdout is not None
        yield popen.stdout.readline().strip()
        popen.terminate()
        assert popen.wait(20) == 0
    finally:
        popen.kill()
        popen.wait()
        popen.stdout.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http_program() as found:
        yield found


class RawSession:
    """A session by hand: its header, and requests whose answers are read event by event."""

    def __init__(self, http: httpx2.AsyncClient, url: str, session_id: str) -> None:
        self.http, self.url = http, url
        self.headers = HEADERS | {"mcp-session-id": session_id, "mcp-protocol-version": "2025-11-25"}

    def message(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    async def call(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.http.post(
            self.url, headers=self.headers, json=self.message(number, tool, **arguments), timeout=30
        )
        return _messages(answer.text)[-1]["result"]


@contextlib.asynccontextmanager
async def raw_session(url: str) -> AsyncIterator[RawSession]:
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, headers=HEADERS, json=HELLO)
        ours = RawSession(http, url, answer.headers["mcp-session-id"])
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(url, headers=ours.headers, json=done)).status_code == 202
        yield ours


def _messages(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ") and line != "data: "]


async def test_sessions_have_processes_of_their_own(url: str) -> None:
    """Lost: one agent types into the shell of another."""
    async with McpClient(url, mode="legacy") as one, McpClient(url, mode="legacy") as two:
        process_id, output = await running(one, "echo $$; exec sleep 1000", "\n")
        pid = int(output)
        for tool in ("write_stdin", "terminate_process", "read_screen"):
            assert "unknown process id" in await refused(two, tool, process_id=process_id)
        assert (await call(two, "list_processes"))["processes"] == []
        assert (await two.list_resources()).resources == []
        assert alive(pid)
    await eventually(lambda: not alive(pid), "a session that was ended has no processes")


async def test_clients_without_sessions_share_one(url: str) -> None:
    """Revision 2026-07-28 has none. Lost: every process of such a client, at the next request."""
    async with McpClient(url) as one:
        assert one.protocol_version == "2026-07-28"
        found = await call(one, "exec_command", cmd="cat", tty=True, yield_time_ms=250)
    async with McpClient(url) as again:
        await call(again, "write_stdin", process_id=found["process_id"], chars="\x04")


async def test_fifty_calls_side_by_side(url: str) -> None:
    async with McpClient(url, mode="legacy") as client:
        found = await asyncio.gather(*(call(client, "exec_command", cmd=f"echo {n}") for n in range(50)))
        assert [each["output"] for each in found] == [f"{n}\n" for n in range(50)]


async def test_an_answer_that_was_cut_off_is_read_later(url: str) -> None:
    """Lost: the answer to a call that has done something, when a network changes."""
    async with raw_session(url) as ours:
        message = ours.message(1, "exec_command", cmd="sleep 0.5; echo late")
        async with ours.http.stream("POST", url, headers=ours.headers, json=message) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    last = line[4:]
                    break
        resumed = ours.headers | {"last-event-id": last}
        async with asyncio.timeout(20), ours.http.stream("GET", url, headers=resumed, timeout=20) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    found = json.loads(line[6:])
                    break
        assert found["id"] == 1 and found["result"]["structuredContent"]["output"] == "late\n"


async def test_a_session_outlives_its_connections(url: str) -> None:
    """Lost: processes, with every connection that a proxy closes."""
    async with raw_session(url) as ours:
        found = (await ours.call(1, "exec_command", cmd="cat", tty=True, yield_time_ms=250))["structuredContent"]
        async with httpx2.AsyncClient() as other:
            ours.http = other
            looked = await ours.call(
                2, "write_stdin", process_id=found["process_id"], chars="\x04", yield_time_ms=20_000
            )
            assert looked["structuredContent"]["exit_code"] == 0


async def test_a_session_ends_when_it_is_told_to(url: str, tmp_path: Path) -> None:
    async with raw_session(url) as ours:
        pid_file = tmp_path / "pid"
        await ours.call(1, "exec_command", cmd=f"echo $$ > {pid_file}; exec sleep 1000", yield_time_ms=250)
        await eventually(lambda: pid_file.exists() and pid_file.read_text().strip(), "it has begun")
        pid = int(pid_file.read_text())
        assert (await ours.http.delete(url, headers=ours.headers)).status_code == 200
        await eventually(lambda: not alive(pid), "its processes are gone")
        answer = await ours.http.post(url, headers=ours.headers, json=ours.message(2, "list_processes"))
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 400),
        ({"accept": "text/html"}, 406),
        ({"mcp-session-id": "guessed"}, 404),
    ],
)
async def test_strangers_are_kept_out(url: str, headers: dict[str, str], status: int) -> None:
    """A web page in a browser here can reach this port. Lost: the machine, to whoever made the page."""
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, headers=HEADERS | headers, json=HELLO)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("body, status", [(b"{", 400), (b"x" * (17 << 20), 413), (b"[]", 400)])
async def test_bodies_that_are_no_messages(url: str, body: bytes, status: int) -> None:
    async with httpx2.AsyncClient() as http:
        assert (await http.post(url, headers=HEADERS, content=body, timeout=20)).status_code == status
        assert (await http.get(url.replace("/mcp", "/livez"))).status_code == 200


async def test_a_token_is_asked_for(tmp_path: Path) -> None:
    """Lost: the machine, to everybody who reaches the port."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with http_program("--ws-auth", "capability-token", "--ws-token-file", str(file)) as url:
        async with httpx2.AsyncClient() as http:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
                answer = await http.post(url, headers=HEADERS | headers, json=HELLO)
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in answer.text
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
            McpClient(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            assert (await call(client, "exec_command", cmd="echo in"))["output"] == "in\n"


async def test_https_and_an_origin_that_may(tmp_path: Path) -> None:
    import ssl

    import trustme

    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    with http_program("--tls-cert", str(tmp_path / "server.pem"), "--allow-origin", "https://app.example") as url:
        assert url.startswith("https://127.0.0.1:")
        async with httpx2.AsyncClient(verify=trusted) as http:
            answer = await http.post(url, headers=HEADERS | {"origin": "https://app.example"}, json=HELLO)
            assert answer.status_code == 200
