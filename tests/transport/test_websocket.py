"""WebSocket on real sockets, with the `websockets` client and with one that breaks the rules."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.transport.support import RawClient, Recorder, Served, frame_head, masked_frame
from transport import control_frames, peer_watch, websocket
from transport.base import INBOX_BYTES, INBOX_MESSAGES
from transport.framing.websocket import MAX_MESSAGE
from transport.interface import Drained, MessagesArrived, ProbeAnswered, TransportClosed
from transport.listen import WebSocketUrl, serve_websocket

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
RAW_TRACES = [
    trace
    for line in (Path(__file__).parent / "data" / "upstream.jsonl").read_text().splitlines()
    if (trace := json.loads(line))["name"].startswith("ws/raw-")
]


def client(served: Served) -> connect:
    return connect(served.url, max_size=None, compression=None, ping_interval=None, proxy=None)


async def closing(ws: ClientConnection) -> tuple[int | None, str]:
    """Code and reason of the Close frame that ends the connection."""
    with pytest.raises(ConnectionClosed):
        while True:
            await ws.recv()
    return ws.close_code, ws.close_reason or ""


async def upgraded(served: Served, buffers: int | None = None) -> tuple[RawClient, Recorder]:
    raw = await RawClient(buffers).upgrade(served.listener.port)
    return raw, await served.accepted()


# Messages.


async def test_messages_of_all_sizes_both_ways(served: Served) -> None:
    """Every length form of a frame header carries its message whole, and text and binary come in alike."""
    async with client(served) as ws:
        (await served.accepted()).echo()
        for size in (0, 1, 125, 126, 65535, 65536, 300_000, 4 * MIB, 4 * MIB + 1):
            payload = os.urandom(size // 2).hex() + "x" * (size % 2)
            await ws.send(payload)
            assert await ws.recv() == payload
            await ws.send(payload.encode())
            assert await ws.recv() == payload


async def test_largest_message_in_one_frame_and_in_many(served: Served) -> None:
    """A file of 48 MB written in one request (64 MiB of base64) gets through, whole or in pieces; no byte more."""
    async with client(served) as ws:
        connection = await served.accepted()
        await ws.send(b"x" * MAX_MESSAGE)
        await ws.send([b"y" * MIB] * 64)
        await connection.until(lambda: len(connection.messages) == 2)
        assert connection.messages == [b"x" * MAX_MESSAGE, b"y" * MAX_MESSAGE]
        connection.messages.clear()
        await ws.send([b"y" * MIB] * 64 + [b"z"])
        assert (await closing(ws))[0] == 1009
    assert connection.messages == []


async def test_order_of_a_burst(served: Served) -> None:
    """10,000 requests pipelined in one go are all taken, in order, whatever the bounds on the way."""
    async with client(served) as ws:
        connection = (await served.accepted()).echo()
        numbers = [b"%d" % i for i in range(10_000)]
        raw = ws.transport
        raw.write(b"".join(masked_frame(0x82, number) for number in numbers))
        for number in numbers:
            assert await ws.recv(decode=False) == number
        assert connection.messages == numbers
        assert connection.count(MessagesArrived) < 10_000


async def test_binary_that_is_not_utf8_is_a_message(served: Served) -> None:
    """Bad bytes in a binary frame are for the codec to answer; the connection lives."""
    async with client(served) as ws:
        connection = (await served.accepted()).echo()
        await ws.send(b"\xff\xfe")
        await connection.until(lambda: connection.messages == [b"\xff\xfe"])
        assert connection.closed is None


async def test_one_write_a_turn(served: Served) -> None:
    """What a turn sends leaves together, through the hook that was given: the price of a message is its share."""
    flushes: list[object] = []

    def defer(flush: object) -> None:
        flushes.append(flush)

    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), lambda t: accepted.put_nowait(Recorder(t)), defer=defer)
    raw = await RawClient().upgrade(listener.port)
    connection = await accepted.get()
    for i in range(50):
        connection.transport.send(b"%d" % i)
    assert len(flushes) == 1
    assert connection.transport.buffered() > 50
    flushes[0]()  # type: ignore[operator]
    assert [await raw.message() for _ in range(50)] == [b"%d" % i for i in range(50)]
    assert connection.transport.buffered() == 0
    listener.close()
    await listener.wait_closed(0)
    raw.close()


async def test_sent_frames(served: Served) -> None:
    """Small messages are one text frame; larger ones come in frames of 1 MiB, so that nothing waits for all of it."""
    raw, connection = await upgraded(served)
    connection.transport.send(b"{}")
    connection.transport.send(b"a" * (4 * MIB + 5))
    connection.transport.send(b"after")
    assert await raw.frame() == (0x81, b"{}")
    frames = [await raw.frame() for _ in range(5)]
    assert [first for first, _ in frames] == [0x01, 0x00, 0x00, 0x00, 0x80]
    assert [len(payload) for _, payload in frames] == [MIB] * 4 + [5]
    assert await raw.frame() == (0x81, b"after")
    raw.close()


async def test_pieces_are_made_as_they_are_taken(served: Served) -> None:
    """An answer of any size costs the memory of a few pieces while a slow client reads it."""
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"p" * 65536

    raw, connection = await upgraded(served, buffers=65536)
    connection.transport.send_pieces(pieces())
    connection.transport.send_pieces(iter([]))
    connection.transport.send_pieces(iter([b"", b"dropped: an empty piece is the end"]))
    connection.transport.send(b"after")
    payload = await raw.message()
    assert made == 1000
    assert payload == b"p" * 65536 * 1000
    assert await raw.message() == b"after"
    raw.close()


async def test_pieces_wait_for_a_client_that_does_not_read(served: Served) -> None:
    """Nothing is made ahead for somebody who does not take it."""
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"p" * 65536

    raw, connection = await upgraded(served, buffers=65536)
    connection.transport.send_pieces(pieces())
    before = -1
    while made != before:  # until the kernel is full and stays so
        before = made
        for _ in range(20):
            await asyncio.sleep(0.001)
    assert 0 < made * 65536 < 24 * MIB
    assert connection.transport.buffered() < MIB
    raw.close()
    await connection.until_closed()


async def test_pieces_that_fail(served: Served) -> None:
    """Half a message cannot be taken back: the connection ends, and the reason is told."""

    def pieces() -> Iterator[bytes]:
        yield b"[1,"
        raise ValueError("no more")

    raw, connection = await upgraded(served)
    connection.transport.send_pieces(pieces())
    assert "no more" in await connection.until_closed()
    raw.close()


async def test_ping_is_answered_between_fragments(served: Served) -> None:
    """A client with a short ping timeout survives a large answer."""
    raw, connection = await upgraded(served, buffers=65536)
    connection.transport.send(b"a" * (32 * MIB))
    await raw.send(masked_frame(0x89, b"still there?"))
    frames = []
    while not frames or frames[-1][0] != 0x80:
        frames.append(await raw.frame())
    assert (0x8A, b"still there?") in frames
    assert sum(len(payload) for first, payload in frames if first in (0x00, 0x01, 0x80)) == 32 * MIB
    raw.close()


# Bounds.


async def test_reading_pauses_while_nothing_is_taken(served: Served) -> None:
    """A client that sends without end does not fill our memory; it has to wait, and loses nothing."""
    served.take = False
    raw, connection = await upgraded(served)
    message = b"m" * 1000
    batch = masked_frame(0x82, message) * 100
    sent = 0
    while True:
        try:
            sent += raw.socket.send(batch[sent % len(batch) :])
        except BlockingIOError:
            before = sent
            for _ in range(20):
                await asyncio.sleep(0.001)
            try:
                sent += raw.socket.send(batch[sent % len(batch) :])
            except BlockingIOError:
                break
            assert sent > before
    await connection.until(lambda: connection.count(MessagesArrived) == 1)
    rest = asyncio.ensure_future(raw.send(batch[sent % len(batch) :] + masked_frame(0x82, b"last")))
    got: list[bytes] = []
    largest = 0
    while not got or got[-1] != b"last":
        taken = connection.call(connection.transport.take, INBOX_MESSAGES * 2)
        largest = max(largest, len(taken))
        got += taken
        await asyncio.sleep(0)
    await rest
    assert largest <= INBOX_MESSAGES
    assert set(got[:-1]) == {message}
    assert len(got) - 1 == -(-sent // len(masked_frame(0x82, message)) // 100) * 100
    raw.close()


async def test_large_messages_count_by_their_bytes(served: Served) -> None:
    """Few large messages are as bounded as many small ones; each may be as large as the limit says."""
    served.take = False
    raw, connection = await upgraded(served)
    sending = asyncio.ensure_future(raw.send(masked_frame(0x82, b"m" * (3 * MIB)) * 8))
    seen: list[bytes] = []
    while len(seen) < 8:
        arrivals = connection.count(MessagesArrived)
        taken = connection.call(connection.transport.take, 100)
        assert sum(map(len, taken)) <= INBOX_BYTES + 3 * MIB
        seen += taken
        if not taken:
            await connection.until(lambda before=arrivals: connection.count(MessagesArrived) > before)
    await sending
    assert seen == [b"m" * (3 * MIB)] * 8
    raw.close()


async def test_slow_reader_and_drained(served: Served) -> None:
    """What a client does not read stays countable, and Drained comes once, when it has fallen to the mark."""
    raw, connection = await upgraded(served, buffers=65536)
    while connection.transport.buffered() < 2 * MIB:
        connection.transport.send(b"s" * 65536)
        await asyncio.sleep(0)
    connection.call(connection.transport.call_when_below, MIB)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert connection.count(Drained) == 0

    async def read() -> None:
        while True:
            await raw.message()

    reading = asyncio.ensure_future(read())
    await connection.until(lambda: connection.count(Drained))
    assert connection.transport.buffered() <= MIB
    connection.call(connection.transport.call_when_below, 0)
    await connection.until(lambda: connection.count(Drained) == 2)
    assert connection.transport.buffered() == 0
    connection.call(connection.transport.call_when_below, 0)
    await connection.until(lambda: connection.count(Drained) == 3)
    reading.cancel()
    raw.close()


async def test_unread_pongs_are_bounded(served: Served) -> None:
    """A client that pings and never reads is not read from for ever; when it reads, every Ping has its Pong."""
    raw, connection = await upgraded(served, buffers=4096)
    connection.transport.send(b"f" * (8 * MIB))  # so that Pongs have to wait
    ping = masked_frame(0x89, b"p" * 100)
    sent = 0
    batch = ping * 1000
    blocked = 0
    while blocked < 20:
        try:
            sent += raw.socket.send(batch[sent % len(batch) :])
            blocked = 0
        except BlockingIOError:
            blocked += 1
            await asyncio.sleep(0.001)
    assert connection.transport.buffered() < 8 * MIB + 3 * control_frames.UNSENT_PONGS * 102
    tail = batch[sent % len(batch) :]
    rest = asyncio.ensure_future(raw.send(tail))
    pongs = 0
    while pongs < (sent + len(tail)) // len(ping):
        first, _ = await raw.frame()
        pongs += first == 0x8A
    await rest
    raw.close()


async def test_control_frames_use_up_no_room(served: Served) -> None:
    """A client that sends more Pings or Pongs in one go than there is room for messages is still read behind them."""
    raw, connection = await upgraded(served)
    for first in (0x8A, 0x89):
        connection.messages.clear()
        await raw.send(masked_frame(first, b"") * (INBOX_MESSAGES * 3) + masked_frame(0x81, b"behind"))
        await connection.until(lambda: connection.messages == [b"behind"])


async def test_taking_one_at_a_time(served: Served) -> None:
    """A bridge that takes message by message is told of the rest as often as it needs."""
    served.take = False
    raw, connection = await upgraded(served)
    sending = asyncio.ensure_future(raw.send(b"".join(masked_frame(0x81, b"%d" % i) for i in range(3000))))
    taken: list[bytes] = []
    while len(taken) < 3000:
        arrivals = connection.count(MessagesArrived)
        if now := connection.call(connection.transport.take, 1):
            taken += now
        else:
            await connection.until(lambda before=arrivals: connection.count(MessagesArrived) > before)
    await sending
    assert taken == [b"%d" % i for i in range(3000)]


# Control frames and violations.

EXPECTED_CLOSE = {
    "ws/raw-unmasked": 1002,
    "ws/raw-rsv": 1002,
    "ws/raw-unknown-opcode": 1002,
    "ws/raw-bad utf8": 1007,
    "ws/raw-cont-first": 1002,
    "ws/raw-ping-big": 1002,
    "ws/raw-close-1000": 1000,
    "ws/raw-close-empty": None,
}


@pytest.mark.parametrize("trace", RAW_TRACES, ids=lambda trace: trace["name"])
async def test_where_upstream_just_hangs_up(served: Served, trace: dict[str, list[str]]) -> None:
    """The same frames end the connection as upstream's, but with a Close frame that says why."""
    raw, connection = await upgraded(served)
    await raw.send(bytes.fromhex(trace["send"][0]))
    name = trace["name"]
    if name in EXPECTED_CLOSE:
        code = EXPECTED_CLOSE[name]
        first, payload = await raw.frame()
        assert first == 0x88
        assert payload[:2] == (b"" if code is None else code.to_bytes(2))
        await raw.to_the_end()
        await connection.until_closed()
        assert connection.messages == []
    else:
        if name == "ws/raw-ping":
            assert await raw.frame() == (0x8A, b"abc")
        await raw.send(masked_frame(0x81, b"alive"))
        await connection.until(lambda: connection.messages == [b"alive"])
    raw.close()


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (frame_head(0x81, MAX_MESSAGE + 1), 1009),
        (frame_head(0x01, MAX_MESSAGE + 1), 1009),
        (frame_head(0x82, 2**63 - 1), 1009),
        (masked_frame(0x01, b"a") + frame_head(0x80, MAX_MESSAGE), 1009),
        (masked_frame(0x01, b"\xc3") + masked_frame(0x80, b"("), 1007),
        (masked_frame(0x88, b"\x03"), 1002),  # half a close code
        (masked_frame(0x88, b"\x03\xed"), 1002),  # 1005 must not be sent
        (masked_frame(0x88, b"\x00\x00"), 1002),
        (masked_frame(0x88, b"\x03\xe8\xff"), 1007),
        (masked_frame(0x08, b""), 1002),
    ],
)
async def test_violations(served: Served, frames: bytes, code: int) -> None:
    """A broken client learns from the close code what it did, even while it is still sending."""
    raw, connection = await upgraded(served)
    await raw.send(frames)
    first, payload = await raw.frame()
    assert (first, int.from_bytes(payload[:2])) == (0x88, code)
    await connection.until_closed()
    await raw.to_the_end()
    raw.close()


async def test_close_frame_reaches_a_client_that_keeps_sending(served: Served) -> None:
    """Closing with unread data would reset the connection and take our Close frame with it."""
    async with client(served) as ws:
        connection = await served.accepted()
        with pytest.raises(ConnectionClosed):
            for _ in range(200):
                await ws.send([b"x" * MIB] * 65)
        assert ws.close_code == 1009
        await connection.until_closed()


async def test_close_by_the_client(served: Served) -> None:
    """A goodbye is answered with the same code, what was sent before it is delivered, and what comes after is not."""
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"before") + masked_frame(0x88, b"\x0f\xa0bye") + masked_frame(0x81, b"after"))
    assert await raw.frame() == (0x88, b"\x0f\xa0bye")
    assert await raw.to_the_end() == b""
    assert await connection.until_closed() == "peer closed with code 4000 bye"
    assert connection.messages == [b"before"]
    raw.close()


async def test_close_behind_more_messages_than_the_inbox_holds(served: Served) -> None:
    """A client that writes much and says goodbye has all of it done."""
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"m") * (INBOX_MESSAGES * 5) + masked_frame(0x88, b"\x03\xe8"))
    await connection.until_closed()
    assert connection.messages == [b"m"] * (INBOX_MESSAGES * 5)
    raw.close()


# Closing.


async def test_close_flushes_first(served: Served) -> None:
    """The last answers come before the goodbye, and the goodbye says what it should."""
    async with client(served) as ws:
        connection = await served.accepted()
        for i in range(100):
            connection.transport.send(b"%d" % i)
        connection.transport.send(b"x" * (8 * MIB))
        connection.call(connection.transport.close, 1001, "server is going away")
        connection.transport.send(b"too late")
        for i in range(100):
            assert await ws.recv() == str(i)
        assert len(await ws.recv()) == 8 * MIB
        assert await closing(ws) == (1001, "server is going away")
        assert await connection.until_closed() == "server is going away"


async def test_close_with_a_reason_that_is_too_long(served: Served) -> None:
    """A Close frame has room for 123 bytes; a longer reason is cut between characters."""
    async with client(served) as ws:
        connection = await served.accepted()
        connection.call(connection.transport.close, 1011, "é" * 100)
        assert await closing(ws) == (1011, "é" * 61)


async def test_close_of_a_client_that_reads_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shutdown does not wait for ever for somebody who does not read."""
    monkeypatch.setattr("transport.base.STALL_SECONDS", 0.05)
    raw, connection = await upgraded(served, buffers=4096)
    connection.transport.send(b"x" * (32 * MIB))
    connection.call(connection.transport.close, 1001)
    assert await asyncio.wait_for(connection.until_closed(), 5) == "peer did not take what was queued"
    raw.close()


async def test_close_of_a_client_that_does_not_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for somebody who reads the goodbye and says nothing; messages that come meanwhile go nowhere."""
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.2)
    raw, connection = await upgraded(served)
    connection.call(connection.transport.close, 1000, "done")
    assert await raw.frame() == (0x88, b"\x03\xe8done")
    await raw.send(masked_frame(0x81, b"deaf"))
    assert await asyncio.wait_for(connection.until_closed(), 5) == "done"
    assert await raw.to_the_end() == b""
    assert connection.messages == []
    raw.close()


async def test_close_while_reading_is_paused(served: Served) -> None:
    """The peer's Close is found behind what nobody took."""
    served.take = False
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"m") * (INBOX_MESSAGES * 3))
    await connection.until(lambda: connection.count(MessagesArrived))
    connection.call(connection.transport.close, 1000)
    assert (await raw.frame())[0] == 0x88
    await raw.send(masked_frame(0x88, b"\x03\xe8"))
    await asyncio.wait_for(connection.until_closed(), 1)
    raw.close()


async def test_abort(served: Served) -> None:
    """An abort is the end now, told once, whatever is called after it."""
    raw, connection = await upgraded(served, buffers=4096)
    connection.transport.send(b"x" * (8 * MIB))
    connection.call(connection.transport.abort, "enough")
    connection.call(connection.transport.abort, "again")
    connection.call(connection.transport.close)
    connection.call(connection.transport.send, b"x")
    connection.call(connection.transport.probe)
    connection.call(connection.transport.call_when_below, 0)
    assert await connection.until_closed() == "enough"
    assert connection.transport.buffered() == 0
    raw.close()
    await asyncio.sleep(0.01)
    assert connection.count(TransportClosed) == 1


async def test_half_closed_without_a_goodbye(served: Served) -> None:
    """FIN alone is the end at once, so that a session can be resumed at once; what was queued still goes out."""
    raw, connection = await upgraded(served)
    connection.on_message = lambda message: connection.call(connection.transport.send, b"answer")
    await raw.send(masked_frame(0x81, b"question"))
    assert await raw.message() == b"answer"
    connection.transport.send(b"last words")
    raw.socket.shutdown(socket.SHUT_WR)
    assert "without a Close frame" in await connection.until_closed()
    assert await raw.message() == b"last words"
    assert await raw.to_the_end() == b""
    raw.close()


async def test_reset(served: Served) -> None:
    """So is a reset."""
    raw, connection = await upgraded(served)
    raw.reset()
    await asyncio.wait_for(connection.until_closed(), 1)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_end_is_seen_while_reading_is_paused(served: Served, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that went away while the server did not read it frees its session within about a second."""
    monkeypatch.setattr(peer_watch, "LOOK_SECONDS", 0.1)
    served.take = False
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"m") * (INBOX_MESSAGES * 3))
    await connection.until(lambda: connection.count(MessagesArrived))
    getattr(raw, how)()
    await asyncio.wait_for(connection.until_closed(), 3)
    assert connection.transport.take(1000) == [b"m"] * INBOX_MESSAGES


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_end_is_seen_at_once_when_asked_for(served: Served, how: str) -> None:
    """A resume asks the old connection for a sign of life; one that has hung up is found out then."""
    served.take = False
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"m") * (INBOX_MESSAGES * 3))
    await connection.until(lambda: connection.count(MessagesArrived))
    getattr(raw, how)()
    connection.call(connection.transport.probe)
    await asyncio.wait_for(connection.until_closed(), 0.5)


async def test_end_behind_a_burst_waits_for_the_burst(served: Served) -> None:
    """Somebody who pipelines and hangs up has it carried out, as long as it is being taken."""
    raw, connection = await upgraded(served)
    await raw.send(masked_frame(0x81, b"m" * 100) * 5000)
    raw.close()
    await connection.until_closed()
    assert len(connection.messages) == 5000


# Life.


async def test_probe(served: Served) -> None:
    """A living client is not robbed of its session: its Pong, or any byte, answers the probe."""
    async with client(served) as ws:
        connection = await served.accepted()
        connection.call(connection.transport.probe)
        await connection.until(lambda: connection.count(ProbeAnswered) == 1)
        await ws.send(b"{}")
        await connection.until(lambda: connection.messages)
        assert connection.count(ProbeAnswered) == 1
    raw, other = await upgraded(served)
    other.call(other.transport.probe)
    assert await raw.frame() == (0x89, b"")
    await raw.send(b"\x81")
    await other.until(lambda: other.count(ProbeAnswered) == 1)
    raw.close()


async def test_silent_client_is_pinged_and_kept(anyio_backend: object) -> None:
    """A stopped client, whose kernel acknowledges all the same, is asked again and again but never cut off."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(
        WebSocketUrl("127.0.0.1", 0), lambda t: accepted.put_nowait(Recorder(t)), ping_interval=0.05
    )
    raw = await RawClient().upgrade(listener.port)
    connection = await accepted.get()
    for _ in range(10):  # ten intervals: four times as long as a dead peer would be given
        assert await raw.frame() == (0x89, b"")
    assert connection.closed is None
    await raw.send(masked_frame(0x8A, b""))
    await raw.send(masked_frame(0x81, b"here again"))
    await connection.until(lambda: connection.messages == [b"here again"])
    listener.close()
    await listener.wait_closed(0)
    raw.close()


async def test_nothing_is_left_behind(served: Served) -> None:
    """Two hundred connections later there are as many descriptors, and no objects of theirs, as before."""
    raw, connection = await upgraded(served)
    raw.close()
    await connection.until_closed()
    await served.listener_is_empty()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        batch = [await upgraded(served) for _ in range(20)]
        for raw, connection in batch:
            connection.transport.send(b"x")
            raw.close()
        for _, connection in batch:
            await connection.until_closed()
        served.connections.clear()
    del batch, raw, connection
    await served.listener_is_empty()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, websocket.WebSocketTransport)]


async def test_subprotocol_is_chosen_when_supported(anyio_backend: object) -> None:
    """A client that offers an encoding we have is told so; one that offers others still gets in."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(
        WebSocketUrl("127.0.0.1", 0),
        lambda t: accepted.put_nowait(Recorder(t)),
        subprotocols=["exec-server.msgpack"],
    )
    for offered, chosen in ((["a", "exec-server.msgpack"], "exec-server.msgpack"), (["a"], None), (None, None)):
        async with connect(listener.url, subprotocols=offered, proxy=None) as ws:  # type: ignore[arg-type]
            assert ws.subprotocol == chosen
            assert (await accepted.get()).transport.subprotocol == chosen
    listener.close()
    await listener.wait_closed(1)


async def test_peer_is_named(served: Served) -> None:
    """A log line and an error text say whose connection it is."""
    raw, connection = await upgraded(served)
    host, port = raw.socket.getsockname()
    assert connection.transport.peer == f"exec-server websocket {host}:{port}"
    assert connection.transport.resumable
    raw.close()
