"""Slow readers, floods and bursts: bounded memory, nothing lost, nobody else held up.

Each case is here in a size of a second or two, and in its full size in the slow tier.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.client import Client, result_of, session, start_params
from tests.support.program import Program, alive, eventually, program
from tests.support.raw_websocket import RawWebSocket, frames

pytestmark = pytest.mark.anyio

MIB = 1 << 20
FULL_SIZE = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def own() -> Iterator[Program]:
    """A server whose memory these tests may judge; it retains little, so that what grows is what is in flight."""
    with program("--retained-output", str(64 * 1024), "--session-ttl", "30") as running:
        yield running


async def warm_up(server: Program) -> int:
    """Have the server load and allocate what it needs once; its resident bytes then."""
    async with session(server.url) as client:
        for n in range(4):
            await client.run(f"p{n}", "/bin/sh", "-c", "head -c 3000000 /dev/zero", tty=bool(n % 2))
        return server.rss()


@contextlib.asynccontextmanager
async def growth_below(server: Program, limit: int, report: str) -> AsyncIterator[None]:
    """The server's memory may grow by `limit` bytes in this block, at any of many moments."""
    before = await warm_up(server)
    highest = before

    async def watch() -> None:
        nonlocal highest
        while True:
            highest = max(highest, server.rss())
            await asyncio.sleep(0.02)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
    print(f"{report}: grew by {(highest - before) / MIB:.1f} MiB from {before / MIB:.1f} MiB")
    assert highest - before < limit


@pytest.mark.parametrize("size", [30 * MIB, pytest.param(300 * MIB, marks=FULL_SIZE)])
async def test_a_slow_reader_costs_no_memory_and_loses_nothing(own: Program, size: int) -> None:
    """Lost: the server to one client that does not read (r-shell#26: 34 GB), or output of a child that waited."""
    async with growth_below(own, 12 * MIB, "slow reader"), session(own.url) as client, session(own.url) as other:
        script = f"echo $$; exec head -c {size} /dev/zero"
        flood = await client.start("flood", "/bin/sh", "-c", script)
        pid = int((await flood.shows(b"\n")).split(b"\n")[0])
        flood.chunks.clear()
        flood.keep = False
        client.stop_reading()
        for n in range(20):
            assert (await other.run(f"p{n}", "/bin/echo", "well")).stdout == b"well\n"
        assert alive(pid), "the child did not wait for the client"
        client.read_on()
        await flood.closed()
        assert flood.sizes["stdout"] == size + len(f"{pid}\n")


async def test_a_cut_frees_a_child_that_waits_for_its_reader(own: Program, tmp_path: Path) -> None:
    """Lost: the end of a build whose client was slow, then gone."""
    async with session(own.url) as client:
        await client.shell("sh", f"head -c 20000000 /dev/zero; touch {tmp_path}/done", keep=False)
        client.stop_reading()
        async with session(own.url) as other:
            await other.run("p", "/bin/true")
            assert not (tmp_path / "done").exists()
            client.link.abort()
            await eventually((tmp_path / "done").exists, "the child has ended")
        await client.abort()


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=FULL_SIZE)])
async def test_many_children_of_a_slow_reader(own: Program, count: int) -> None:
    """Lost: bounded memory, where each of many children may add what it has in hand; all of it arrives."""
    size = 2 * MIB
    async with growth_below(own, 12 * MIB + count * 128 * 1024, "many children"), session(own.url) as client:
        floods = [
            await client.start(f"f{n}", "/usr/bin/head", "-c", str(size), "/dev/zero", keep=False) for n in range(2)
        ]
        client.stop_reading()
        async with session(own.url) as other:
            await other.run("p", "/bin/true")
        for n in range(2, count):
            floods.append(client.follow(f"f{n}", 1, keep=False))
            params = start_params(f"f{n}", "/usr/bin/head", "-c", str(size), "/dev/zero")
            await client.send("process/start", **params)
        client.read_on()
        for flood in floods:
            await flood.closed()
        assert {flood.sizes["stdout"] for flood in floods} == {size}


@pytest.mark.parametrize("tty", [False, True])
async def test_a_child_that_prints_a_byte_at_a_time(own: Program, tty: bool) -> None:
    """Lost: bounded memory, where each byte is a chunk; every byte arrives."""
    script = "i=0; while [ $i -lt 20000 ]; do printf x; i=$((i+1)); done"
    async with growth_below(own, 12 * MIB, "a byte at a time"), session(own.url) as client:
        printer = await client.start("printer", "/bin/sh", "-c", script, tty=tty, keep=False)
        await printer.closed()
        assert sum(printer.sizes.values()) == 20000


async def test_requests_are_answered_in_one_go(own: Program) -> None:
    """Lost: a connection to a burst of requests, which wedges upstream at 1,000 (docs/wire-spec.md, "Order")."""
    await check_burst(own, 10_000)


async def check_burst(server: Program, count: int) -> None:
    requests = [{"id": n, "method": "environment/status"} for n in range(count)]

    def burst() -> list[int]:
        client = RawWebSocket(server.url)
        client.initialize()
        client.socket.settimeout(60)
        # More than the kernel's buffers hold: answers must be written while requests come in.
        client.socket.sendall(frames(requests))
        ids = [client.next()["id"] for _ in range(count)]
        client.close()
        return ids

    assert sorted(await asyncio.to_thread(burst)) == list(range(count))


@pytest.mark.parametrize("count", [100, pytest.param(500, marks=FULL_SIZE)])
@pytest.mark.parametrize("tty", [False, True])
async def test_starts_in_one_go(own: Program, count: int, tty: bool) -> None:
    """Lost: a burst of starts, which wedges upstream at 250 and leaks the session for ever (docs/wire-spec.md,
    "Order").
    """
    async with session(own.url) as client:
        for n in range(3):
            await client.run(f"first{n}", "/bin/true")
        await eventually(lambda: not own.zombies(), "all are reaped")
        before = own.load()
        processes = [client.follow(f"p{n}", 1) for n in range(count)]
        answers = [
            await client.send("process/start", **start_params(f"p{n}", "/bin/echo", str(n), tty=tty))
            for n in range(count)
        ]
        for n, (process, answer) in enumerate(zip(processes, answers, strict=True)):
            await result_of(answer)
            ended = await process.closed()
            assert (ended.stdout + ended.pty).split() == [str(n).encode()]
        await own.falls_to(before)


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=FULL_SIZE)])
async def test_large_answers_at_the_clients_pace(count: int) -> None:
    """Lost: the server's memory to a client that asks faster than it reads."""
    reads = [{"id": n, "method": "process/read", "params": {"processId": "flood"}} for n in range(count)]

    def ask_then_read() -> float:
        client = RawWebSocket(server.url, 60)
        client.initialize()
        client.send({"id": -2, "method": "process/start", "params": start_params("flood", "/bin/sh", "-c", script)})
        seen = 0
        while seen < 1_000_000:
            seen += len(client.next().get("params", {}).get("chunk", "")) * 3 // 4
        client.socket.sendall(frames(reads[: count // 2]))
        time.sleep(0.5)  # a client that takes its time: nothing to wait for, the server must not read ahead for it
        started = time.monotonic()
        client.socket.sendall(frames(reads[count // 2 :]))
        assert all(client.next_size() > 1_300_000 for _ in range(count))
        client.close()
        return time.monotonic() - started

    script = "head -c 1000000 /dev/zero; exec sleep 1000"
    with program() as server:
        async with growth_below(server, 20 * MIB, f"{count} reads of 1 MiB"):
            print(f"{count} reads in {await asyncio.to_thread(ask_then_read):.1f} s")


@pytest.mark.parametrize(("count", "trips"), [(20, 20), pytest.param(200, 100, marks=FULL_SIZE)])
async def test_one_that_pipelines_without_end_holds_up_nobody(own: Program, count: int, trips: int) -> None:
    """Lost: everybody's server to one client that asks without end."""
    requests = frames({"id": n, "method": "environment/info"} for n in range(500))
    stop = asyncio.Event()

    def hog() -> int:
        client = RawWebSocket(own.url)
        client.initialize()
        answered = 0
        while not stop.is_set():
            client.socket.sendall(requests)
            for _ in range(500):
                client.next_size()
            answered += 500
        client.close()
        return answered

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(session(own.url)) for _ in range(count)]
        hogging = asyncio.create_task(asyncio.to_thread(hog))
        worst = 0.0
        try:
            for n in range(trips):
                client = clients[n % count]
                started = time.monotonic()
                assert await client.call("environment/status") == {"status": "ready"}
                worst = max(worst, time.monotonic() - started)
                assert (await client.run(f"p{n}", "/bin/echo", "hi")).stdout == b"hi\n"
        finally:
            stop.set()
            answered = await hogging
        print(f"{count} connections beside one with {answered} requests: worst round trip {worst * 1000:.1f} ms")
        assert answered > 0


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=FULL_SIZE)])
async def test_many_living_children(own: Program, count: int) -> None:
    """Lost: a thousand terminals at once; afterwards nothing of them is left but what they printed."""
    await warm_up(own)
    async with session(own.url) as client:
        await eventually(lambda: not own.zombies(), "all are reaped")
        before, rss = own.load(), own.rss()
        processes = [client.follow(f"p{n}", 1) for n in range(count)]
        answers = [
            await client.send("process/start", **start_params(f"p{n}", "/bin/cat", tty=True)) for n in range(count)
        ]
        for answer in answers:
            await result_of(answer)
        print(f"{count} children: {(own.rss() - rss) / count / 1024:.1f} KiB each")
        for process in processes:
            await client.send("process/write", **client.write_params(process.id, b"hello\n"))
        for process in processes:
            await process.shows(b"hello\r\nhello\r\n")
        for process in processes:
            await client.send("process/write", **client.write_params(process.id, b"\x04"))
        for process in processes:
            assert (await process.closed()).code == 0
        await own.falls_to(before)
        assert own.rss() - rss < 8 * MIB + count * 16 * 1024


async def test_two_floods_share_a_slow_connection(own: Program) -> None:
    """Lost: the output of one child beside a louder one."""
    async with session(own.url) as client:
        loud = await client.start("loud", "/usr/bin/yes", keep=False)
        quiet = await client.shell("quiet", "i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); sleep 0.005; done")
        assert (await quiet.closed()).stdout.endswith(b"line 49\n")
        assert loud.sizes["stdout"] > 0
        await loud.terminate()
        await loud.closed()


async def run_many(client: Client, name: str, count: int) -> None:
    for n in range(count):
        ended = await client.run(f"{name}{n}", "/bin/sh", "-c", "echo out; echo err >&2", tty=bool(n % 2))
        assert ended.code == 0
        del client.processes[f"{name}{n}"]


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=FULL_SIZE)])
async def test_short_commands_leave_nothing_behind(count: int) -> None:
    """Lost: a server that lasts: descriptors, zombies and threads of finished commands (claude-code#68731)."""
    with program("--process-retention", "0.05") as server:
        async with session(server.url) as a, session(server.url) as b, session(server.url) as c:
            await asyncio.gather(*(run_many(each, "warm", 50) for each in (a, b, c)))
            await eventually(lambda: not server.zombies(), "all are reaped")
            before, rss = server.load(), server.rss()
            await asyncio.gather(*(run_many(each, "run", count // 3 + 1) for each in (a, b, c)))
            await server.falls_to(before)
            print(f"{count} commands: grew by {(server.rss() - rss) / 1024:.0f} KiB")
            assert server.rss() - rss < 4 * MIB


async def test_sessions_leave_nothing_behind(own: Program) -> None:
    """Lost: a server that lasts: what belongs to connections and sessions that are over."""
    mark_rss = await warm_up(own)
    for round_ in range(2):
        for n in range(100):
            client = await asyncio.to_thread(RawWebSocket, own.url)
            if n % 2:
                # A client of the seed era: its session ends with it.
                params = {"clientName": "seed"}
                client.send({"id": 1, "method": "initialize", "params": params}, {"method": "initialized"})
                start = {"processId": "p", "argv": ["/bin/sleep", "1000"], "cwd": "/", "env": {}, "tty": False}
                client.send({"id": 2, "method": "process/start", "params": start})
                await asyncio.to_thread(client.next)
                await asyncio.to_thread(client.next)
            client.close()
        await eventually(lambda: not own.zombies() and len(own.children()) <= 1, "all children are gone")
        if round_ == 0:
            before = own.load()
    await own.falls_to(before)
    assert own.rss() - mark_rss < 8 * MIB
