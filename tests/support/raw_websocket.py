"""A WebSocket client that does as little as it is told: it answers no Ping, and reads only when asked to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from struct import pack
from typing import Any
from urllib.parse import urlsplit

import msgspec

_HANDSHAKE = (
    "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class RawWebSocket:
    """A blocking connection, after the handshake. All waits end with TimeoutError after `seconds`."""

    def __init__(self, url: str, seconds: float = 30.0, receive_buffer: int | None = None) -> None:
        address = urlsplit(url)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(seconds)
        self.socket.connect((address.hostname, address.port))
        self.socket.sendall(_HANDSHAKE.format(host=address.netloc).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._some()
        status, _, self._rest = head.partition(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 101"), status

    def send(self, *messages: dict[str, Any]) -> None:
        """Send messages in one go, each in a frame of its own."""
        self.socket.sendall(b"".join(frame(msgspec.json.encode(message)) for message in messages))

    def next_size(self) -> int:
        """Read one whole data message and throw it away; its size. Control frames are passed over."""
        size = 0
        while True:
            first, length = self._header()
            self._skip(length)
            if not first & 0x08:
                size += length
                if first & 0x80:
                    return size

    def next(self) -> Any:
        """Read one whole data message."""
        payload = b""
        while True:
            first, length = self._header()
            piece = self._exactly(length)
            if not first & 0x08:
                payload += piece
                if first & 0x80:
                    return msgspec.json.decode(payload)

    def initialize(self, resume: str | None = None) -> str:
        """The handshake; the session id."""
        params = {"clientName": "raw", "resumeSessionId": resume}
        self.send({"id": 0, "method": "initialize", "params": params}, {"method": "initialized"})
        return str(self.next()["result"]["sessionId"])

    def close(self) -> None:
        """Close the socket without a goodbye."""
        self.socket.close()

    def _header(self) -> tuple[int, int]:
        first, second = self._exactly(2)
        length = second & 0x7F
        if length > 125:
            length = int.from_bytes(self._exactly(2 if length == 126 else 8), "big")
        return first, length

    def _some(self) -> bytes:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server has closed the connection")
        return data

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += self._some()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _skip(self, size: int) -> None:
        while size > len(self._rest):
            size -= len(self._rest)
            self._rest = self._some()
        self._rest = self._rest[size:]


def frame(payload: bytes) -> bytes:
    """A text frame of a client; its mask is zero, which leaves the bytes as they are."""
    size = len(payload)
    if size < 126:
        header = pack("!BB", 0x81, 0x80 | size)
    elif size < 65536:
        header = pack("!BBH", 0x81, 0xFE, size)
    else:
        header = pack("!BBQ", 0x81, 0xFF, size)
    return header + bytes(4) + payload


def frames(messages: Iterable[dict[str, Any]]) -> bytes:
    """The frames of many messages, to be sent at once."""
    return b"".join(frame(msgspec.json.encode(message)) for message in messages)
