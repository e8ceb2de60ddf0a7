"""Connections that are cut: handles see no break, and nothing is done twice."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exec_server import (
    Closed,
    Disconnected,
    ExecServerClient,
    Exited,
    Failed,
    Gap,
    Output,
    OutputGap,
    Process,
    Reconnected,
    TransportDisconnected,
    connect_stdio,
    connect_websocket,
)
from exec_server.client import websocket
from exec_server.client.event_buffer import HOLD_FROM
from protocol.errors import ActorLost, InvalidRequest
from tests.support.cutting_proxy import CuttingProxy
from tests.support.embedded import embedded
from tests.support.program import eventually, marker, running, stdio_pipes

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def proxied(
    budgets: Iterable[int] = (), reconnect_timeout: float = 45.0, connect_timeout: float = 10.0, **config: object
) -> AsyncIterator[tuple[ExecServerClient, CuttingProxy]]:
    """A client behind a proxy that cuts each connection after so many bytes, and the proxy."""
    async with (
        embedded(**config) as (_, url),
        CuttingProxy(url, budgets) as proxy,
        connect_websocket(proxy.url, connect_timeout=connect_timeout, reconnect_timeout=reconnect_timeout) as client,
    ):
        yield client, proxy


async def resumed(client: ExecServerClient) -> None:
    """Wait for an answer on a connection that is there."""
    await client.list()


# -- any cuts -------------------------------------------------------------------------------------------------------

HANDSHAKE = 3000
"""Bytes that a connection surely needs before the client is ready."""


async def print_and_echo(budgets: list[int], lines: int, words: int) -> int:
    """A child that prints so many lines, and repeats so many words that it is written; how often it was cut."""
    script = f"seq {lines} & cat >&2; wait"
    async with proxied([HANDSHAKE, *budgets], retained_output=64 << 20) as (client, proxy):
        process = await client.start(["sh", "-c", script], stdin=subprocess.PIPE)

        async def feed() -> None:
            for n in range(words):
                await process.write(b"word %d\n" % n)
            await process.close_stdin()

        feeding = asyncio.create_task(feed())
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await feeding
        assert err == b"".join(b"word %d\n" % n for n in range(words))
        assert out == b"".join(b"%d\n" % n for n in range(1, lines + 1))
        assert await process.wait() == 0
        return proxy.cuts


def many_cuts(seed: int) -> list[int]:
    """As many as must be survived, spread evenly: a list of Hypothesis's own has long runs of the smallest, at which
    no connection comes about, and a client gives up in the end.
    """
    chance = random.Random(seed)
    return [chance.randint(1, 500_000) for _ in range(200)]


MANY_CUTS = st.integers(0, 2**32).map(many_cuts)
CUTS = st.lists(st.integers(1, 120_000), min_size=1, max_size=4)


@given(CUTS)
@example([1, 200, 700, 1500, 2500])
@example([50_000] * 3)
@settings(max_examples=2)
def test_nothing_is_lost_or_doubled_by_cuts_anywhere(budgets: list[int]) -> None:
    """Lost: output, or input that arrives twice; wherever a network breaks."""
    assert asyncio.run(print_and_echo(budgets, 40_000, 20)) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(MANY_CUTS)
@settings(max_examples=3)
def test_nothing_is_lost_or_doubled_by_200_cuts_in_50_mb(budgets: list[int]) -> None:
    assert asyncio.run(print_and_echo(budgets, 7_000_000, 2000)) > 180


async def test_a_connection_that_always_breaks_gets_on() -> None:
    """Lost: output, or its end, where no connection lasts for a megabyte; all of it is asked for in vain then."""
    async with proxied(itertools.repeat(300_000), retained_output=64 << 20) as (client, proxy):
        process = await client.start(["seq", "300000"])
        assert await process.stdout.read() == b"".join(b"%d\n" % n for n in range(1, 300_001))
        assert proxy.cuts > 3


async def flood(budgets: list[int], bursts: int) -> list[Gap]:
    """A child that prints 2 MB at a time, more than is kept while nobody listens; the gaps. What is not in a gap must
    be right.
    """
    expected = b"".join(b"%d\n" % n for n in range(1, 300_001)) * bursts
    script = f"for n in $(seq {bursts}); do seq 300000; sleep 0.1; done"
    async with proxied([HANDSHAKE, *budgets]) as (client, _):
        process = await client.start(["sh", "-c", script])
        at, seq, gaps = 0, 0, []
        async for event in process.events:
            if isinstance(event, Output):
                assert (event.offset, event.seq) == (at, seq + 1)
                assert event.data == expected[at : at + len(event.data)]
                at, seq = at + len(event.data), event.seq
            elif isinstance(event, Gap):
                assert event.from_seq == seq + 1 and event.size > 0
                at, seq = at + event.size, event.to_seq
                gaps.append(event)
            elif isinstance(event, Exited):
                assert event.status == 0
                seq += 1
        assert at == len(expected)
        assert isinstance(event, Closed)
        return gaps


@given(st.lists(st.integers(50_000, 1_000_000), min_size=1, max_size=4))
@example([400_000] * 2)
@settings(max_examples=2)
def test_what_was_evicted_is_told_exactly(budgets: list[int]) -> None:
    """Lost: how much is missing, or anything that is not in a gap."""
    asyncio.run(flood(budgets, 3))


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(MANY_CUTS)
@settings(max_examples=3)
def test_what_was_evicted_is_told_exactly_over_many_cuts(budgets: list[int]) -> None:
    assert len(asyncio.run(flood(budgets, 60))) > 10


async def test_a_flood_without_a_listener_leaves_a_gap() -> None:
    """The test above must be able to fail: there are gaps, and a reader of bytes is not left to believe it has all."""
    async with proxied() as (client, proxy):
        process = await client.start(["sh", "-c", "echo first; read x; seq 1000000"], stdin=subprocess.PIPE)
        assert await process.stdout.readline() == b"first\n"
        proxy.lose_answers = True
        writing = asyncio.create_task(process.write(b"\n"))
        await asyncio.sleep(0)
        await eventually(lambda: proxy.lost > 0, "it prints")
        proxy.cut()
        proxy.lose_answers = False
        gaps: list[int | None] = []
        rest = b""
        while not rest:  # it prints on while the client catches up, so there may be more than one
            try:
                rest = await process.stdout.read()
            except OutputGap as gap:
                gaps.append(gap.size)
        assert gaps
        assert all(gaps)
        assert rest.endswith(b"\n1000000\n")
        assert sum(size or 0 for size in gaps) + len(rest) == len(b"".join(b"%d\n" % n for n in range(1, 1_000_001)))
        await writing


# -- requests under way -----------------------------------------------------------------------------------------------


async def test_a_start_whose_answer_is_lost_is_found_again() -> None:
    """Lost: the handle of a process that runs; or it is started twice."""
    mark = marker()
    async with proxied() as (client, proxy):
        proxy.lose_answers = True
        starting = asyncio.create_task(client.start(["sh", "-c", f"echo on; exec sleep {mark}"]))
        await eventually(lambda: running(mark), "it runs")
        proxy.lose_answers = False
        proxy.cut()
        process = await starting
        assert await process.stdout.readline() == b"on\n"
        assert len(running(mark)) == 1
        await process.kill()
        assert await process.wait() == -9


async def test_a_start_that_did_not_arrive_is_not_sent_again() -> None:
    """Lost: certainty that nothing runs after a start that failed."""
    mark = marker()
    async with proxied() as (client, proxy):
        proxy.lose_requests = True
        starting = asyncio.create_task(client.start(["sleep", mark], process_id="p"))
        await eventually(lambda: proxy.lost > 0, "it is under way")
        proxy.lose_requests = False
        proxy.cut()
        with pytest.raises(TransportDisconnected, match=r"^exec-server transport disconnected: .*nothing runs"):
            await starting
        assert await client.list() == []
        assert not running(mark)
        async with await client.start(["true"], process_id="p") as process:
            assert await process.wait() == 0


async def test_a_start_without_a_connection_waits_for_one() -> None:
    async with proxied() as (client, proxy):
        proxy.refuse = True
        proxy.cut()
        await eventually(lambda: not client._session.connected, "the cut is seen")
        running_it = asyncio.create_task(client.run(["echo", "later"]))
        await asyncio.sleep(0)
        proxy.refuse = False
        assert (await running_it).stdout == b"later\n"


async def test_a_signal_is_not_sent_twice() -> None:
    """Lost: a program that would survive one interrupt, and ends at the second."""
    async with proxied() as (client, proxy):
        script = "trap 'echo hit' USR1; echo on; while :; do sleep 0.01; done"
        process = await client.start(["sh", "-c", script])
        assert await process.stdout.readline() == b"on\n"
        proxy.lose_answers = True
        signalling = asyncio.create_task(process.signal("SIGUSR1"))
        await eventually(lambda: proxy.lost > 0, "it has arrived")
        proxy.lose_answers = False
        proxy.cut()
        with pytest.raises(TransportDisconnected, match="not known whether process/signal was carried out"):
            await signalling
        assert await process.stdout.readline() == b"hit\n"
        await process.kill()
        assert await process.stdout.read() == b""


async def test_requests_that_change_nothing_are_asked_again() -> None:
    async with proxied() as (client, proxy):
        proxy.lose_requests = True
        listing = asyncio.create_task(client.list())
        await eventually(lambda: proxy.lost > 0, "it is under way")
        proxy.lose_requests = False
        proxy.cut()
        assert await listing == []


async def test_a_connection_that_is_dead_but_open_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a client that waits for ever, where a network swallows what is sent and says nothing."""
    monkeypatch.setattr(websocket, "SILENCE_S", 0.1)
    async with proxied(connect_timeout=1.0) as (client, proxy):
        assert await client.list() == []
        before = proxy.passed
        await eventually(lambda: proxy.passed > before, "a sign of life is asked for, and given")
        assert proxy.connections == 1
        proxy.lose_answers = True
        listing = asyncio.create_task(client.list())
        await eventually(lambda: proxy.connections > 1, "it is left")
        proxy.lose_answers = False
        assert await listing == []


# -- handles ----------------------------------------------------------------------------------------------------------


async def test_an_exit_during_a_cut_is_told() -> None:
    """Lost: a wait that never ends."""
    async with proxied() as (client, proxy):
        process = await client.start(["sh", "-c", "echo on; read x; echo off; exit 9"], stdin=subprocess.PIPE)
        assert await process.stdout.readline() == b"on\n"
        proxy.lose_answers = True
        writing = asyncio.create_task(process.write(b"\n"))
        await eventually(lambda: proxy.lost > 0, "it has ended, or is about to")
        proxy.lose_answers = False
        proxy.cut()
        assert await process.wait() == 9
        assert await process.communicate() == (b"off\n", b"")
        await writing  # its answer was lost, and the process had ended when it was sent again


async def test_who_looks_on_is_told_of_the_connection() -> None:
    """Lost: the one line that tells a person why nothing moves."""
    async with proxied() as (client, proxy):
        events = client.events()
        proxy.cut()
        assert await anext(events) == Disconnected("the connection was cut")
        assert await anext(events) == Reconnected()


async def test_a_process_that_the_server_has_forgotten_fails() -> None:
    """Lost: a wait that never ends, after a cut that was longer than the record of the process is kept."""
    mark = marker()
    async with (
        embedded(process_retention=0.01) as (server, url),
        CuttingProxy(url) as proxy,
        connect_websocket(proxy.url) as client,
    ):
        actors = server._engine.live_actors
        process = await client.start(["sleep", mark])
        proxy.refuse = True
        proxy.cut()
        # A parent goes on from vfork(2) a moment before the kernel shows the arguments of its child.
        await eventually(lambda: running(mark), "it is seen")
        os.kill(running(mark)[0], signal.SIGKILL)
        await eventually(lambda: server._engine.live_actors < actors, "bridge and process are gone")
        proxy.refuse = False
        (event,) = [event async for event in process.events]
        assert event == Failed(process.process_id, "the server does not know the process any more", "unknownProcess")
        for call in (process.wait(), process.communicate(), process.stdout.read()):
            with pytest.raises(ActorLost, match="does not know the process any more"):
                await call
        assert (await client.run(["echo", "on"])).stdout == b"on\n"


async def test_a_held_process_is_held_again() -> None:
    """Lost: the client's memory, after a cut."""
    async with proxied(retained_output=64 << 20) as (client, proxy):
        slow = await client.start(["head", "-c", "60000000", "/dev/zero"])
        await eventually(lambda: slow._buffer.size >= HOLD_FROM, "it is held")
        proxy.cut()
        await eventually(lambda: proxy.connections == 2, "a new connection")
        await resumed(client)
        assert (await client.run(["echo", "quick"])).stdout == b"quick\n"
        assert slow._buffer.size < 2 * HOLD_FROM
        assert sum([len(chunk) async for chunk in slow.stdout]) == 60_000_000


# -- the end of a session ---------------------------------------------------------------------------------------------


async def fails(process: Process, client: ExecServerClient, reason: str) -> None:
    """Every way to look at a process of a session that is lost."""
    events = [event async for event in process.events]
    assert [type(event) for event in events] == [Failed]
    assert isinstance(events[0], Failed)
    assert events[0].kind == "disconnected"
    assert reason in events[0].reason
    for call in (process.wait(), process.write(b"x"), process.kill(), process.stdout.read(), client.run(["true"])):
        with pytest.raises(TransportDisconnected, match=r"^exec-server transport disconnected") as error:
            await call
        assert str(error.value).count("transport disconnected") == 1


async def test_a_session_that_is_gone_fails_its_handles() -> None:
    """Lost: handles that wait for ever for a process that nobody can reach."""
    async with proxied(session_ttl=0.01) as (client, proxy):
        process = await client.start(["sleep", "1000"])
        stream = client.events()
        proxy.cut()
        await fails(process, client, "unknown session id")
        assert [type(event) async for event in stream] == [Disconnected, Failed]


async def test_a_server_that_does_not_come_back_fails_its_handles() -> None:
    async with proxied(reconnect_timeout=0.2) as (client, proxy):
        process = await client.start(["sleep", "1000"])
        proxy.refuse = True
        proxy.cut()
        await fails(process, client, "could not be resumed: cannot connect to exec-server")


async def test_a_server_on_stdio_that_dies_fails_its_handles() -> None:
    async with stdio_pipes() as (reader, writer, program), connect_stdio(reader, writer) as client:
        process = await client.start(["sleep", "1000"])
        program.popen.kill()
        await fails(process, client, "the server's output has ended")


async def test_a_start_at_the_end_of_a_session_fails() -> None:
    async with proxied(session_ttl=0.01) as (client, proxy):
        proxy.lose_answers = True
        starting = asyncio.create_task(client.start(["sleep", "1000"]))
        await eventually(lambda: proxy.lost > 0, "it is under way")
        proxy.lose_answers = False
        proxy.cut()
        with pytest.raises(TransportDisconnected, match="unknown session id"):
            await starting


async def test_closing_the_client_fails_its_handles() -> None:
    async with proxied() as (client, _):
        process = await client.start(["cat"], stdin=subprocess.PIPE)
        await client.close()
        with pytest.raises(TransportDisconnected, match="the client was closed"):
            await process.write(b"x")
        with pytest.raises((TransportDisconnected, InvalidRequest)):
            await client.list()
