"""Memory that clients can make the server hold: the largest of everything in every state, each within its bound.

Named by the letters of the attacks that were once possible. What is measured is the server's resident memory.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from tests.support.client import PATIENCE_S, RpcError, expect_error, session
from tests.support.program import program
from tests.support.raw_websocket import RawWebSocket

pytestmark = pytest.mark.anyio

MIB = 1 << 20
CHUNK = "AAAA" * (MIB // 3)


async def test_h9_a_start_leaves_its_environment_behind() -> None:
    """Lost: memory, to what a start brought with it and nobody can ask for any more."""
    with program("--process-retention", "3600") as server:
        async with session(server.url) as client:
            await client.run("warm", "/bin/true")
            before = server.rss()
            env = {f"V{number}": "x" * 100_000 for number in range(15)}
            for number in range(60):
                proxy = {"proxy": [1.5] * 100_000}
                await client.run(f"p{number}", "/bin/true", env=env, networkProxy=proxy)
            assert server.rss() - before < 40 * MIB
            listed = (await client.call("process/list"))["processes"]
            assert len(listed) == 61 and listed[-1]["argv"] == ["/bin/true"]


async def test_h9_more_than_the_kernel_takes_is_refused_at_once() -> None:
    """Lost: memory, to starts that wait for a thread and cannot succeed."""
    with program() as server:
        async with session(server.url) as client:
            error = await expect_error(client.start("p", "/bin/true", "x" * (7 * MIB)))
            assert (error.code, error.data["reason"]) == (-32603, "size"), error
            assert error.data["bytes"] > 6 * MIB


async def test_h9_requests_that_wait_are_counted_by_their_bytes() -> None:
    """Lost: memory, to a few requests that are large and are not answered for a day."""
    with program("--max-pending-bytes", str(4 * MIB)) as server:
        async with session(server.url) as client:
            process = await client.start("p", "/bin/sleep", "1000", pipeStdin=True)
            before = server.rss()
            # Nobody reads what is written, and what waits for room behind it is not answered.
            writes = [await client.send("process/write", processId="p", chunk=CHUNK) for _ in range(30)]
            await client.call("environment/status")
            done = [each for each in writes if each.done()]
            refused = [each.result() for each in done if "error" in each.result()]
            assert len(refused) >= 24 and {each["error"]["data"]["kind"] for each in refused} == {"busy"}
            assert server.rss() - before < 40 * MIB
            await process.terminate()


async def test_h9_all_connections_together_hold_no_more_than_is_said() -> None:
    """Lost: memory, to many connections that each keep to their limits."""
    with program("--messages-total", str(8 * MIB)) as server:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(session(server.url)) for _ in range(4)]
            for client in clients:
                await client.start("p", "/bin/sleep", "1000", pipeStdin=True)
            outcomes = []
            for client in clients:
                for _ in range(5):
                    outcomes.append(await client.send("process/write", processId="p", chunk=CHUNK))
                await client.call("environment/status")
            refused = [each.result()["error"]["data"] for each in outcomes if each.done() and "error" in each.result()]
            limit = {"kind": "limitReached", "limit": "messages_total", "value": 8 * MIB}
            assert len(refused) >= 8 and all(each == limit for each in refused)
            for client in clients:
                await client.processes["p"].terminate()


async def test_h9_answers_that_are_not_taken_are_counted(tmp_path: Path) -> None:
    """Lost: memory, to connections that ask for large files and do not read."""
    (tmp_path / "large").write_bytes(bytes(6 * MIB))
    read = {"method": "fs/readFile", "params": {"path": str(tmp_path / "large")}}
    with program("--answers-total", str(20 * MIB)) as server, ExitStack() as stack:
        before = server.rss()
        for _ in range(6):
            deaf = RawWebSocket(server.url, receive_buffer=4096)
            stack.callback(deaf.socket.close)
            deaf.send({"id": 1, "method": "initialize", "params": {"clientName": "deaf"}})
            deaf.next()
            deaf.send({"method": "initialized"}, {"id": 2, **read}, {"id": 3, **read})
        async with session(server.url) as client:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        await client.call("fs/readFile", path=str(tmp_path / "large"))
                    except RpcError as error:
                        refused = error
                        break
            limit = {"kind": "limitReached", "limit": "answers_total", "value": 20 * MIB}
            assert (refused.code, refused.data) == (-32603, limit)
        assert server.rss() - before < 90 * MIB


async def test_m4_what_an_observer_watches_is_bounded() -> None:
    """Lost: everybody's echo, to one observer that attaches twenty thousand times; and the owner's waits."""
    with program() as server:
        async with session(server.url) as owner, session(server.url) as observer:
            process = await owner.start("p", "/bin/sleep", "1000")
            watched = {"observeId": owner.observe_id, "processId": "p"}
            for number in range(128):
                observer.follow(f"a{number}", 1)
                await observer.call("process/attach", **watched, **{"as": f"a{number}"})
            error = await expect_error(observer.call("process/attach", **watched, **{"as": "one more"}))
            assert error.data == {"kind": "tooMany"}
            observer.follow("one more", 1)
            await observer.call("process/detach", processId="a0")
            await observer.call("process/attach", **watched, **{"as": "one more"})
            waits = [await observer.send("process/wait", processId=f"a{1 + n % 127}") for n in range(600)]
            async with asyncio.timeout(PATIENCE_S):
                while sum(each.done() for each in waits) < 88:
                    await observer.call("environment/status")
            wait = await owner.send("process/wait", processId="p")
            await observer.call("environment/status")
            assert not wait.done(), "there is room for the owner"
            busy = [each.result()["error"]["data"] for each in waits if each.done()]
            assert busy == [{"kind": "busy"}] * 88
            await process.terminate()
            assert (await wait)["result"]["exited"]
            assert all([(await each)["result"]["exited"] for each in waits[:512]])
