"""Limits of a server: each is reached, refused by its name, and has room again when something ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.client import PATIENCE_S, Client, RpcError, connected, expect_error, session, start_params
from tests.support.program import Program, alive, eventually, program
from tests.support.web import web_server

pytestmark = pytest.mark.anyio


def refused(limit: str, value: int) -> dict[str, Any]:
    return {"kind": "limitReached", "limit": limit, "value": value}


@contextmanager
def telling(folder: Path, *flags: str) -> Iterator[tuple[Program, Path]]:
    """A server, and the file that has its log."""
    log = folder / "stderr"
    with log.open("wb") as stderr, program(*flags, stderr=stderr) as server:
        yield server, log


async def test_connections() -> None:
    """Lost: the server's descriptors, to whoever connects and connects; or its health checks, once it is full."""
    with program("--max-connections", "2") as server:
        async with connected(server.url) as one, connected(server.url):
            with pytest.raises(InvalidStatus) as refusal:
                async with connect(server.url):
                    pass
            assert refusal.value.response.status_code == 503
            assert b"max_connections of this server, 2, is reached" in refusal.value.response.body
            url = server.url.replace("ws:", "http:") + "/readyz"
            assert (await asyncio.to_thread(urllib.request.urlopen, url)).status == 200
            await one.close()
            await admitted(server)


async def admitted(server: Program) -> None:
    """Connect, as soon as there is room."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with session(server.url):
                    return
            except InvalidStatus as full:
                assert full.response.status_code == 503


async def test_sessions() -> None:
    """Lost: memory, to sessions without end; or the way back to one's own session, when there are many."""
    with program("--max-sessions", "2", "--session-ttl", "60") as server:
        async with session(server.url) as one, connected(server.url) as other, connected(server.url) as third:
            await other.initialize(sessionTtlMs=0)
            error = await expect_error(third.initialize())
            assert (error.code, error.data) == (-32603, refused("max_sessions", 2))
            one.link.abort()
            async with connected(server.url) as again:
                await again.initialize(resume=one.session_id)
                other.link.abort()
                await initialized(third)


async def initialized(client: Client) -> None:
    """Initialize, as soon as there is room."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client.initialize()
                return
            except RpcError as full:
                assert full.data["kind"] == "limitReached"


async def test_processes_of_all_sessions() -> None:
    """Lost: the machine, to many sessions that each keep to their limit; or room that nobody gives back."""
    with program("--max-processes", "3") as server:
        async with session(server.url) as one, session(server.url) as other:
            await expect_error(one.start("none", "/no/such/program"))
            first = await one.start("1", "/bin/sleep", "1000")
            await other.start("1", "/bin/sleep", "1000")
            await other.start("2", "/bin/sleep", "1000")
            for client in (one, other):
                error = await expect_error(client.start("4", "/bin/true"))
                assert (error.code, error.data) == (-32603, refused("max_processes", 3))
            await first.terminate()
            await first.exited()
            assert (await one.run("4", "/bin/true")).code == 0
        async with connected(server.url) as client:
            await client.initialize(sessionTtlMs=0)
            await client.start("1", "/bin/sleep", "1000")
        async with session(server.url) as last:  # the first three have detached, and still have two
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await last.start("1", "/bin/sleep", "1000")
                        break
                    except RpcError as full:
                        assert full.data == refused("max_processes", 3)


async def test_what_follows_a_start_that_is_refused() -> None:
    """Lost: the answer to what was sent behind a start, without waiting for it."""
    with program("--max-processes", "1") as server:
        async with session(server.url) as client:
            await client.start("first", "/bin/sleep", "1000")
            for _ in range(2):
                client.follow("second")
                asked = [
                    await client.send("process/start", **start_params("second", "/bin/cat", pipeStdin=True)),
                    await client.send("process/write", **client.write_params("second", b"x")),
                    await client.send("process/wait", processId="second"),
                    await client.send("process/terminate", processId="second"),
                ]
                answers = [await asyncio.wait_for(each, PATIENCE_S) for each in asked]
                assert answers[0]["error"]["data"] == refused("max_processes", 1)
                assert answers[1]["result"]["status"] == "unknownProcess"
                assert answers[2]["error"]["data"]["kind"] == "unknownProcess"
                assert answers[3]["result"] == {"running": False}


async def test_what_follows_a_start_that_is_allowed() -> None:
    """Lost: input that is sent right behind a start."""
    with program() as server:
        async with session(server.url) as client:
            process = client.follow("cat", 1)
            await client.send("process/start", **start_params("cat", "/bin/cat", pipeStdin=True))
            await client.send("process/write", **client.write_params("cat", b"hello"))
            await client.send("process/closeStdin", processId="cat")
            assert (await process.closed()).stdout == b"hello"


async def test_start_rate() -> None:
    """Lost: the machine, to a loop that starts and starts; and when to try again."""
    with program("--start-rate", "1") as server:
        async with session(server.url) as client:
            answers = [
                await client.send("process/start", **start_params(f"p{each}", "/bin/true")) for each in range(20)
            ]
            for each in range(20):
                client.follow(f"p{each}")
            errors = [(await each).get("error") for each in answers]
            refusals = [error["data"] for error in errors if error is not None]
            assert len(refusals) >= 10
            assert errors[:2] == [None, None]
            wait = refusals[0].pop("retryAfterMs")
            assert refusals[0] == refused("start_rate", 1)
            assert 0 < wait <= 1001
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await client.start("later", "/bin/true")
                        break
                    except RpcError as full:
                        await asyncio.sleep(full.data["retryAfterMs"] / 1000)


async def test_time_to_initialize() -> None:
    """Lost: a place, to connections that say nothing; or the connection of a client that has said all it had to."""
    with program("--initialize-timeout", "0.3") as server:
        async with session(server.url) as client:
            for first in ([], ['{"id":1,"method":"initialize","params":{}}']):
                async with connect(server.url) as silent:
                    for message in first:
                        await silent.send(message)
                        assert "error" in json.loads(await silent.recv())
                    with pytest.raises(ConnectionClosed) as closed:
                        await asyncio.wait_for(silent.recv(), PATIENCE_S)
                    assert closed.value.rcvd is not None
                    assert closed.value.rcvd.code == 1008
                    assert "initialize_timeout" in closed.value.rcvd.reason
            assert (await client.run("p", "/bin/true")).code == 0


async def test_message_size() -> None:
    """Lost: memory, to one message; and the name of what was too small for an honest one."""
    with program("--max-message", "5000") as server:
        async with session(server.url) as client:
            assert (await client.run("p", "/bin/echo", "x" * 4000)).code == 0
            await client.send("process/start", **start_params("q", "/bin/echo", "x" * 6000))
            await asyncio.wait_for(client.lost.wait(), PATIENCE_S)
            closed = client.link.socket
            assert (closed.close_code, closed.close_reason) == (1009, "a message may have 5000 bytes (max_message)")


async def test_pending_requests() -> None:
    """Lost: memory, to requests that wait; or requests, when there are too many."""
    with program("--max-pending-requests", "2") as server:
        async with session(server.url) as client, session(server.url) as other:
            process = await client.start("p", "/bin/cat", pipeStdin=True)
            waits = [await client.send("process/wait", processId="p") for _ in range(2)]
            late = await client.send("environment/status")
            await other.call("environment/status")
            await other.call("process/terminate", processId="p", sessionId=client.session_id)
            await process.exited()
            for each in waits:
                assert (await each)["result"]["exited"]
            assert "result" in await asyncio.wait_for(late, PATIENCE_S)


async def test_retained_output_of_all_processes() -> None:
    """Lost: memory, to many processes; or what the newest has printed, rather than the oldest."""
    prints = "head -c 200000 /dev/zero"
    with program("--retained-output-total", "800000", "--retain-head", "0") as server:
        async with session(server.url) as one, session(server.url) as other:
            running = await one.shell("running", f"{prints}; echo; exec sleep 1000")
            await one.until(lambda: len(running.output()) == 200_001)
            await (await other.shell("oldest", prints)).closed()
            await (await one.shell("middle", prints)).closed()
            await (await other.shell("newest", prints)).closed()
            await eventually_unknown(other, "oldest")
            assert await kept(other, "newest") == 200_000
            assert await kept(one, "running") == 200_001
            await other.run("oldest", "/bin/true")  # its id is free


async def eventually_unknown(client: Client, process_id: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client.call("process/read", processId=process_id)
            except RpcError as gone:
                assert gone.data["kind"] == "unknownProcess"
                return


async def kept(client: Client, process_id: str) -> int:
    """Bytes of its output that can be read."""
    result = await client.call("process/read", processId=process_id)
    last = result["chunks"][-1]
    return client.processes[process_id].sizes["stdout"] - result["chunks"][0]["offset"] if last else 0


async def test_http_bodies_of_all_sessions() -> None:
    """Lost: memory, to bodies that many sessions fetch at once; and what to do about it."""
    with program("--http-bodies-total", "100000") as server:
        async with web_server() as web, session(server.url) as client:
            error = await expect_error(client.request(web.url("/big?n=200000")))
            assert (error.code, error.data) == (-32603, refused("http_bodies_total", 100_000))
            for _ in range(3):  # what was kept is given back
                assert len((await client.request(web.url("/big?n=60000")))["body"]) == 60_000
            _, body = await client.stream("s", web.url("/big?n=200000"))
            assert len(await body.ended()) == 200_000


async def test_file_handles_of_all_sessions(tmp_path: Path) -> None:
    """Lost: descriptors, to many clients that each keep to their limit; or room that nobody gives back."""
    path = f"file://{tmp_path}/file"
    (tmp_path / "file").write_text("hi")
    with program("--max-file-handles", "2") as server:
        async with session(server.url) as one, session(server.url) as other:
            await expect_error(one.call("fs/open", handleId="none", path=f"{path}.none", mode="read"))
            await one.call("fs/open", handleId="1", path=path, mode="read")
            await other.call("fs/open", handleId="1", path=path, mode="read")
            for client in (one, other):
                error = await expect_error(client.call("fs/open", handleId="2", path=path, mode="read"))
                assert (error.code, error.data) == (-32603, refused("max_file_handles", 2))
            await one.call("fs/close", handleId="1")
            await one.call("fs/open", handleId="2", path=path, mode="read")
            asked = [await other.send("fs/open", handleId="3", path=f"{path}.new", mode="replace") for _ in range(3)]
            assert all([(await each)["error"]["data"]["kind"] == "limitReached" for each in asked])
            one.link.abort()
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await other.call("fs/open", handleId="3", path=path, mode="read")
                        break
                    except RpcError as full:
                        assert full.data == refused("max_file_handles", 2)


async def test_open_files() -> None:
    """Lost: who bounds the server's descriptors; and a child's own limit, if it got the server's."""
    with program("--open-files", "200") as server:
        async with session(server.url) as client:
            own = subprocess.run(["sh", "-c", "ulimit -Sn"], capture_output=True).stdout
            shell = await client.shell("p", "read line; ulimit -Sn", pipeStdin=True)  # it is restored right after exec
            await shell.write(b"go on\n")
            assert (await shell.closed()).stdout == own
            assert soft_open_files(server.pid) == 200


def soft_open_files(pid: int) -> int:
    found = re.search(r"Max open files +(\d+)", Path(f"/proc/{pid}/limits").read_text())
    assert found is not None
    return int(found[1])


async def test_a_limit_that_is_near_is_said_once(tmp_path: Path) -> None:
    """Lost: the warning before clients are refused; or the log, to one line for each start."""
    with telling(tmp_path, "--max-processes", "10", "--max-processes-per-session", "5") as (server, log):
        async with session(server.url) as one, session(server.url) as other:
            for each in range(3):
                await one.start(f"p{each}", "/bin/sleep", "1000")
            assert "near" not in log.read_text()
            for each in range(3, 5):
                await one.start(f"p{each}", "/bin/sleep", "1000")
            for each in range(5):
                await other.start(f"p{each}", "/bin/sleep", "1000")
            await expect_error(other.start("more", "/bin/true"))
            await eventually(lambda: "max_processes is near: 8 of 10" in log.read_text(), "the log says so")
            said = log.read_text()
            assert said.count("max_processes is near") == 1
            assert said.count("max_processes_per_session is near: 4 of 5") == 1


@asynccontextmanager
async def full(server: Program) -> AsyncIterator[Client]:
    async with session(server.url) as client:
        await client.start("p", "/bin/sleep", "1000")
        yield client


async def test_a_killed_child_gives_its_place_back() -> None:
    """Lost: room, each time that the kernel or another program kills a command."""
    with program("--max-processes", "1") as server:
        async with full(server) as client:
            for each in range(3):
                listed = (await client.call("process/list"))["processes"]
                pid = next(entry["pid"] for entry in listed if entry["running"])
                os.kill(pid, 9)
                await client.until(lambda: all(process.is_closed for process in client.processes.values()))
                assert not alive(pid)
                await client.start(f"next{each}", "/bin/sleep", "1000")
