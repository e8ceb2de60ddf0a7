"""A slow reader holds up its own process, and nobody else."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from exec_server import Closed, ExecServerClient, Failed, Missed, Output, OutputGap
from exec_server.client.demultiplexer import EVENTS_KEPT
from exec_server.client.event_buffer import ALL, BOUND, EVENT_COST, HOLD_FROM, EventBuffer
from exec_server.client.events import Gap
from exec_server.client.streams import OutputStream
from tests.support.program import eventually

pytestmark = pytest.mark.anyio

FLOOD = 40_000_000


async def test_an_unread_process_is_held_and_others_go_on(client: ExecServerClient) -> None:
    """Lost: every other process and answer of the client, as long as one consumer is slow; or its memory."""
    slow = await client.start(["head", "-c", str(FLOOD), "/dev/zero"])
    await eventually(lambda: slow._buffer.size >= HOLD_FROM, "much of it waits here")
    assert (await client.run(["echo", "quick"])).stdout == b"quick\n"
    await client.list()
    assert slow._buffer.size < BOUND
    assert slow.returncode is None
    assert sum([len(chunk) async for chunk in slow.stdout]) == FLOOD
    assert await slow.wait() == 0


async def test_a_server_that_cannot_hold_makes_the_connection_wait(one_client: ExecServerClient) -> None:
    """Lost: the client's memory, on servers without `process/flow`."""
    one_client._session.facts = msgspec.structs.replace(one_client._session.facts, extensions=[])
    slow = await one_client.start(["head", "-c", str(FLOOD), "/dev/zero"])
    await eventually(lambda: slow._buffer.size >= BOUND, "it is full")
    listing = asyncio.create_task(one_client.list())
    await eventually(lambda: not one_client._demultiplexer._room.is_set(), "nothing is received")
    assert slow._buffer.size < BOUND + 2 * (65536 + EVENT_COST)
    assert not listing.done()
    assert sum([len(chunk) async for chunk in slow.stdout]) == FLOOD
    assert [each.process_id for each in await listing] == [slow.process_id]


def test_streams_of_an_inbox_keep_their_order_among_each_other() -> None:
    """Lost: the order of stdout and stderr; a gap is told once to who reads both, and to each who reads one."""
    buffer = EventBuffer()
    one, two = Output("p", 1, "stdout", 0, b"1"), Output("p", 2, "stderr", 1, b"2")
    gap, four = Gap("p", 3, 3, 1), Output("p", 4, "stdout", 3, b"4")
    buffer.put([one, two, gap, four])
    assert [buffer.take(ALL) for _ in range(5)] == [one, two, gap, four, None]
    buffer.put([one, two, gap, four])
    assert [buffer.take(["stderr"]) for _ in range(3)] == [two, gap, None]
    assert [buffer.take(["stdout", "pty"]) for _ in range(4)] == [one, gap, four, None]
    assert buffer.size == 0
    buffer.put([Failed("p", "gone", "processLost"), one])
    assert buffer.take(["stdout"]) is None


async def test_a_gap_takes_nothing_of_what_came_before_it() -> None:
    """Lost: all output before a gap, for who reads everything at once."""
    buffer = EventBuffer()
    stream = OutputStream(buffer, "stdout")
    buffer.put([Output("p", 1, "stdout", 0, b"before"), Gap("p", 2, 2, 5), Output("p", 3, "stdout", 11, b" after")])
    buffer.put([Closed("p", 4)])
    with pytest.raises(OutputGap, match="5 bytes"):
        await stream.read()
    assert await stream.read() == b"before after"
    assert await stream.read() == b""


async def test_all_events_of_a_client(one_client: ExecServerClient) -> None:
    """Lost: a view on everything; and who looks on slowly is told how much was left out, not left to guess."""
    with_all, slow = one_client.events(), one_client.events()
    for n in range(3):
        await one_client.run(["echo", str(n)])
    kinds = [type(await anext(with_all)).__name__ for _ in range(9)]
    assert kinds == ["Output", "Exited", "Closed"] * 3
    for _ in range(EVENTS_KEPT // 2 + 10):  # each has two events, whatever becomes of its output
        await one_client.run(["true"])
    with_all.close()
    taken = [await anext(slow) for _ in range(EVENTS_KEPT)]
    assert not any(isinstance(event, Missed) for event in taken)
    missed = await anext(slow)
    assert isinstance(missed, Missed) and missed.count > 0
    await one_client.close()
    assert [event async for event in slow] == []
    assert len([event async for event in with_all]) <= EVENTS_KEPT + 1
