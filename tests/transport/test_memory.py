"""The pair of ends inside one process keeps the promises that sockets keep."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.transport.support import Recorder
from transport.base import INBOX_MESSAGES
from transport.interface import Drained, MessagesArrived, ProbeAnswered, TransportClosed
from transport.memory import MemoryPeer, PeerClosedError, memory_pair

pytestmark = pytest.mark.anyio


def pair(*, take: bool = True, capacity: int = 1000) -> tuple[Recorder, MemoryPeer]:
    transport, peer = memory_pair(capacity=capacity)
    return Recorder(transport, take), peer


async def test_echo_in_order() -> None:
    """Messages arrive whole and in order, both ways."""
    connection, peer = pair()
    connection.echo()
    for i in range(5000):
        peer.send(b"%d" % i)
    assert [await peer.receive() for _ in range(5000)] == [b"%d" % i for i in range(5000)]
    await peer.drain()


async def test_inbox_is_bounded() -> None:
    """A client that sends without end has to wait until something is taken."""
    connection, peer = pair(take=False)
    for i in range(INBOX_MESSAGES * 3):
        peer.send(b"%d" % i)
    await connection.until(lambda: connection.count(MessagesArrived))
    draining = asyncio.ensure_future(peer.drain())
    taken: list[bytes] = []
    while len(taken) < INBOX_MESSAGES * 3:
        assert connection.count(MessagesArrived) == 1 or taken
        now = connection.call(connection.transport.take, 10_000)
        assert len(now) <= INBOX_MESSAGES
        taken += now
        await asyncio.sleep(0)
    await draining
    assert taken == [b"%d" % i for i in range(INBOX_MESSAGES * 3)]


async def test_slow_reader() -> None:
    """What the peer does not receive is counted, pieces are made as they are received, Drained comes at the mark."""
    connection, peer = pair()
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(50):
            made += 1
            yield b"p" * 100

    for _ in range(30):
        connection.transport.send(b"m" * 100)
    connection.transport.send_pieces(pieces())
    connection.transport.send(b"after")
    connection.call(connection.transport.call_when_below, 500)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.transport.buffered() == 2005
    assert (made, connection.count(Drained)) == (0, 0)
    for _ in range(30):
        assert await peer.receive() == b"m" * 100
    await connection.until(lambda: connection.count(Drained) == 1)
    assert made <= 11
    assert await peer.receive() == b"p" * 5000
    assert await peer.receive() == b"after"


async def test_pieces_that_fail() -> None:
    """Half a message is never taken for a whole one."""
    connection, peer = pair()

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("no more")

    connection.transport.send_pieces(pieces())
    assert "no more" in await connection.until_closed()
    with pytest.raises(PeerClosedError):
        await peer.receive()


async def test_close_flushes_first() -> None:
    """The last answers come before the goodbye."""
    connection, peer = pair()
    for i in range(100):
        connection.transport.send(b"%100d" % i)
    connection.call(connection.transport.close, 1001, "going away")
    connection.transport.send(b"too late")
    assert [int(await peer.receive()) for _ in range(100)] == list(range(100))
    with pytest.raises(PeerClosedError) as caught:
        await peer.receive()
    assert (caught.value.code, caught.value.reason) == (1001, "going away")
    with pytest.raises(PeerClosedError):
        peer.send(b"x")
    assert await connection.until_closed() == "going away"


async def test_close_of_a_peer_that_receives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shutdown ends although nobody reads."""
    monkeypatch.setattr("transport.base.STALL_SECONDS", 0.05)
    connection, _ = pair()
    connection.transport.send(b"m" * 5000)
    connection.transport.send(b"m" * 5000)
    connection.call(connection.transport.close)
    await asyncio.wait_for(connection.until_closed(), 5)
    assert connection.transport.buffered() == 0


async def test_peer_says_goodbye() -> None:
    """What was sent before a Close is delivered before it."""
    connection, peer = pair()
    for _ in range(INBOX_MESSAGES * 2):
        peer.send(b"m")
    peer.close(4000, "bye")
    assert await connection.until_closed() == "peer closed with code 4000 bye"
    assert len(connection.messages) == INBOX_MESSAGES * 2


async def test_end_of_input() -> None:
    """After a half-close the answers still arrive."""
    connection, peer = pair()
    connection.echo()
    peer.send(b"question")
    peer.end_input()
    await connection.until_ended()
    connection.transport.send(b"late")
    assert [await peer.receive(), await peer.receive()] == [b"question", b"late"]
    assert connection.closed is None


async def test_cut() -> None:
    """A cut is the end, once, with whatever was on its way lost."""
    connection, peer = pair()
    connection.transport.send(b"x")
    peer.cut()
    assert await connection.until_closed() == "connection lost"
    connection.call(connection.transport.abort, "again")
    await asyncio.sleep(0.01)
    assert connection.count(TransportClosed) == 1


async def test_probe() -> None:
    """A peer that receives answers; one that has stopped receiving does not."""
    connection, peer = pair()
    connection.call(connection.transport.probe)
    await connection.until(lambda: connection.count(ProbeAnswered) == 1)
    connection.transport.send(b"unread")
    await asyncio.sleep(0)
    connection.call(connection.transport.probe)
    assert await peer.receive() == b"unread"
    await asyncio.sleep(0)
    assert connection.count(ProbeAnswered) == 1


async def test_what_came_before_open_is_told() -> None:
    """Events from before the bridge was ready are not lost, and the end is the last of them."""
    transport, peer = memory_pair()
    peer.send(b"early")
    peer.end_input()
    peer.close()
    await asyncio.sleep(0.01)
    connection = Recorder(transport)
    await connection.until_closed()
    assert connection.messages == [b"early"]
    assert [type(event).__name__ for event in connection.events] == ["MessagesArrived", "InputEnded", "TransportClosed"]
