"""A WebSocket whose subprotocol has binary messages: binary frames only, both ways."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.transport.support import RawClient, Recorder, frame_head, masked_frame
from transport.frame_output import FRAGMENT, FRAGMENT_ABOVE
from transport.framing.websocket import WebSocketFramer
from transport.listen import WebSocketUrl, serve_websocket

pytestmark = pytest.mark.anyio

NAME = "exec-server.msgpack"
OFFER = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: other, {NAME}\r\n\r\n"
).encode()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, asyncio.Queue[Recorder]]]:
    """The port of a listener that has the subprotocol, and what it accepts."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    url = WebSocketUrl("127.0.0.1", 0)
    listener = serve_websocket(url, lambda t: accepted.put_nowait(Recorder(t)), subprotocols=[NAME])
    try:
        yield listener.port, accepted
    finally:
        listener.close()
        await listener.wait_closed(0)


def client(port: int, *offered: str) -> connect:
    names = list(offered) or None
    return connect(f"ws://127.0.0.1:{port}", subprotocols=names, max_size=None, compression=None, proxy=None)  # type: ignore[arg-type]


async def close_code(ws: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        await ws.recv()
    return ws.close_code


async def test_messages_go_out_as_binary_frames(anyio_backend: object) -> None:
    """A client would take them for text, and fail at the first byte that is none."""
    async with listening() as (port, accepted), client(port, "other", NAME) as ws:
        assert ws.subprotocol == NAME
        connection = (await accepted.get()).echo()
        for size in (0, 1, 125, 126, 65_536, FRAGMENT_ABOVE + 1):
            await ws.send(b"\xff" * size)
            assert await ws.recv() == b"\xff" * size
        connection.transport.send_pieces(iter([b"\xfe", b"\xfd" * FRAGMENT]))
        connection.transport.send(b"behind")
        assert await ws.recv() == b"\xfe" + b"\xfd" * FRAGMENT
        assert await ws.recv() == b"behind"


async def test_only_the_first_frame_of_a_message_says_what_it_is(anyio_backend: object) -> None:
    """RFC 6455, 5.4: later fragments are continuations, or a client closes the connection."""
    async with listening() as (port, accepted):
        raw = await RawClient().connect(port)
        await raw.send(OFFER)
        assert f"sec-websocket-protocol: {NAME}\r\n".encode() in (await raw.head()).lower()
        connection = await accepted.get()
        connection.transport.send_pieces(iter([b"a", b"b"]))
        connection.transport.send(b"c")
        assert [await raw.frame() for _ in range(4)] == [(0x02, b"a"), (0x00, b"b"), (0x80, b""), (0x82, b"c")]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (masked_frame(0x81, b"{}"), []),
        (masked_frame(0x81, b""), []),
        (masked_frame(0x01, b"{") + masked_frame(0x80, b"}"), []),
        (frame_head(0x81, 1 << 20) + b"\0\0\0\0" + b"{", []),
        (masked_frame(0x82, b"taken") + masked_frame(0x81, b"\xff"), [b"taken"]),
    ],
    ids=["whole", "empty", "fragmented", "not whole yet", "behind a message"],
)
async def test_a_text_frame_is_refused(anyio_backend: object, frames: bytes, expected: list[bytes]) -> None:
    """Somebody who speaks JSON there must learn it at once, not by errors about each of their messages."""
    async with listening() as (port, accepted), client(port, NAME) as ws:
        connection = await accepted.get()
        ws.transport.write(frames)
        assert await close_code(ws) == 1003
        assert "expected a binary frame" in await connection.until_closed()
        assert connection.messages == expected


async def test_without_the_subprotocol_text_stays_text(anyio_backend: object) -> None:
    """Everybody else is left alone."""
    async with listening() as (port, accepted), client(port, "other") as ws:
        assert ws.subprotocol is None
        (await accepted.get()).echo()
        await ws.send("{}")
        assert await ws.recv() == "{}"


@pytest.mark.parametrize("cut", range(1, 14))
def test_the_reader_refuses_text_however_it_comes(cut: int) -> None:
    """A text frame in two pieces would get past."""
    reader, inbox = WebSocketFramer(), deque[bytes]()
    reader.binary_only = True
    stream = masked_frame(0x82, b"ok") + masked_frame(0x81, b"x")
    reader.read(stream[:cut], inbox, 10)
    reader.read(stream[cut:], inbox, 10)
    assert list(inbox) == [b"ok"]
    assert reader.failure is not None
    assert reader.failure[0] == 1003
