"""WebSocket frames (RFC 6455, section 5): the bytes of a client -> whole messages, and headers for what we
send.

Pure: no socket, no loop. Text and binary messages come out alike, as bytes. Control frames are cut out whole
and left to the caller, which has a library for them. A frame that is not whole yet is unmasked and checked as
it comes in, so that a message of 64 MiB costs one buffer and no long turn of the loop at its end.
"""

from __future__ import annotations

import codecs
from collections import deque
from struct import Struct
from typing import Final

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library was installed without its C extension
    from websockets.utils import apply_mask

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Largest message from a client in bytes, in one frame or in many (docs/wire-spec.md, "Sizes")."""

TEXT: Final = 0x1
BINARY: Final = 0x2
FIN: Final = 0x80

PROTOCOL_ERROR: Final = 1002
UNSUPPORTED_DATA: Final = 1003
INVALID_DATA: Final = 1007
MESSAGE_TOO_BIG: Final = 1009

_MASKED = 0x80
_RESERVED_BITS = 0x70
_CONTINUATION = 0x0
_CONTROL, _CLOSE, _PONG = 0x8, 0x8, 0xA
_CONTROL_LIMIT = 125
_SLICE = 1024 * 1024
_VIEW_ABOVE = 4096  # bytes from which a view is cheaper than a copy

_SHORT = {first: [bytes((first, length)) for length in range(126)] for first in (0x00, 0x01, 0x02, 0x80, 0x81, 0x82)}
_pack_16 = Struct("!BBH").pack
_pack_64 = Struct("!BBQ").pack


def frame_header(first: int, length: int) -> bytes:
    """The header of an unmasked frame: `first` is FIN and the opcode, `length` the payload's in bytes."""
    if length < 126:
        return _SHORT[first][length]
    if length < 65536:
        return _pack_16(first, 126, length)
    return _pack_64(first, 127, length)


class WebSocketFramer:
    """Takes the bytes of one client in order, in pieces of any size, and gives its messages.

    `controls` collects whole, valid control frames (as received, still masked); whoever reads empties it.
    `failure` is the Close code and reason once the client has broken the protocol: nothing is read after
    that. `stopped` says that the last `read` left something for want of room.
    """

    __slots__ = (
        "_body",
        "_decoder",
        "_ended",
        "_fin",
        "_left",
        "_limit",
        "_mask",
        "_rest",
        "_text",
        "binary_only",
        "controls",
        "failure",
        "stopped",
    )

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self.binary_only = False
        """Whether a text frame breaks the protocol; to be set before anything is read."""
        self._rest = b""  # begins at a frame boundary
        self._left = 0  # bytes of the current frame's payload still to come
        self._mask = b""
        self._fin = False
        self._text = False
        self._body: bytearray | None = None  # the message in progress, if any
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ended = False  # by a Close frame
        self.controls: list[bytes] = []
        self.failure: tuple[int, str] | None = None
        self.stopped = False

    def read(self, data: bytes, inbox: deque[bytes], room: int) -> int:
        """Append messages to `inbox`; stop after `room` messages and control frames and keep the rest for
        later.

        Returns the number of bytes in the messages appended.
        """
        if self._ended or self.failure is not None:
            return 0
        if self._rest:
            data = self._rest + data
            self._rest = b""
        self.stopped = False
        at, size, appended = 0, len(data), 0
        while at < size:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                appended += self._absorb(piece, inbox)
                if self.failure is not None:
                    return appended
                if not self._left:
                    room -= 1
                continue
            if room <= 0:
                self.stopped = True
                break
            if size - at < 2:
                break
            first, second = data[at], data[at + 1]
            length = second & 0x7F
            start = at + 6
            if length > _CONTROL_LIMIT:
                start = at + (8 if length == 126 else 14)
                if size < start - 4:
                    break
                length = int.from_bytes(data[at + 2 : start - 4], "big")
            end = start + length
            whole = end <= size
            if (
                whole
                and (first == 0x82 or (first == 0x81 and not self.binary_only))
                and second >= _MASKED
                and self._body is None
                and length <= self._limit
            ):
                masked = data[start:end] if length < _VIEW_ABOVE else memoryview(data)[start:end]
                payload = apply_mask(masked, data[start - 4 : start])
                if first == 0x81 and not is_utf8(payload):
                    self.failure = _NOT_UTF8
                    return appended
                inbox.append(payload)
                appended += length
                at = end
            else:
                self.failure = self._fault(first, second, length)
                if self.failure is not None:
                    return appended
                if first & 0x0F >= _CONTROL:
                    if not whole:
                        break
                    self.controls.append(data[at:end])
                    if first & 0x0F == _CLOSE:
                        self._ended = True
                        return appended
                    at = end
                else:
                    if size < start:
                        break
                    appended += self._begin(first, data[start - 4 : start], length, inbox)
                    at = start
            room -= 1
        if at < size:
            self._rest = data[at:]
        return appended

    def finish(self, inbox: deque[bytes]) -> int:
        """The stream has ended: a message whose last frame has not come is none."""
        return 0

    def _fault(self, first: int, second: int, length: int) -> tuple[int, str] | None:
        if second < _MASKED:
            return PROTOCOL_ERROR, "frame is not masked"
        if first & _RESERVED_BITS:
            return PROTOCOL_ERROR, "reserved bits must be 0"
        opcode = first & 0x0F
        if opcode > _PONG or BINARY < opcode < _CONTROL:
            return PROTOCOL_ERROR, "unknown opcode"
        if opcode >= _CONTROL:
            if length > _CONTROL_LIMIT:
                return PROTOCOL_ERROR, "control frame too long"
            if first < FIN:
                return PROTOCOL_ERROR, "fragmented control frame"
            return None
        if opcode == _CONTINUATION and self._body is None:
            return PROTOCOL_ERROR, "continuation without a message"
        if opcode != _CONTINUATION and self._body is not None:
            return PROTOCOL_ERROR, "expected a continuation frame"
        if opcode == TEXT and self.binary_only:
            return UNSUPPORTED_DATA, "expected a binary frame"
        if len(self._body or b"") + length > self._limit:
            return MESSAGE_TOO_BIG, f"a message may have {self._limit} bytes (max_message)"
        return None

    def _begin(self, first: int, mask: bytes, length: int, inbox: deque[bytes]) -> int:
        if self._body is None:
            self._body = bytearray()
            self._text = first & 0x0F == TEXT
        self._fin = first >= FIN
        self._mask = mask
        self._left = length
        return self._end_frame(inbox) if length == 0 else 0

    def _absorb(self, piece: bytes, inbox: deque[bytes]) -> int:
        assert self._body is not None
        clear = apply_mask(piece, self._mask)
        turned = len(piece) & 3
        self._mask = self._mask[turned:] + self._mask[:turned]
        self._left -= len(piece)
        self._body += clear
        if self._text and (self._decoder is not None or not clear.isascii()):
            if self._decoder is None:
                self._decoder = _utf8_decoder()
            try:
                self._decoder.decode(clear)
            except UnicodeDecodeError:
                self.failure = _NOT_UTF8
                return 0
        return 0 if self._left else self._end_frame(inbox)

    def _end_frame(self, inbox: deque[bytes]) -> int:
        if not self._fin:
            return 0
        body, self._body = self._body, None
        decoder, self._decoder = self._decoder, None
        assert body is not None
        if decoder is not None and decoder.getstate()[0]:
            self.failure = _NOT_UTF8
            return 0
        inbox.append(bytes(body))
        return len(body)


_NOT_UTF8 = INVALID_DATA, "text is not UTF-8"
_utf8_decoder = codecs.getincrementaldecoder("utf-8")


def is_utf8(payload: bytes) -> bool:
    """Whether the bytes are UTF-8. Works in slices: decoding 64 MiB at once takes up to four times that."""
    if payload.isascii():
        return True
    decoder = _utf8_decoder()
    try:
        for at in range(0, len(payload), _SLICE):
            decoder.decode(payload[at : at + _SLICE])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True
