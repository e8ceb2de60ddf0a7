"""Maps of MessagePack out of a stream of bytes: the messages of stdio with `--encoding msgpack`. Pure."""

from __future__ import annotations

from collections import deque

import msgpack  # type: ignore[import-untyped]

from transport.framing.websocket import MAX_MESSAGE


class MessagePackFramer:
    """Takes a stream in pieces of any size and gives its maps, undecoded.

    `failure` says what was wrong once a value is no map, none at all, nested deeper than 1,000, longer than `limit`
    bytes, or cut off by the end: no later map can be found then, and nothing is read after that. `stopped` says that
    the last call left something for want of room.
    """

    __slots__ = ("_body", "_limit", "_passed", "_unpacker", "failure", "stopped")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._unpacker = msgpack.Unpacker(max_buffer_size=0)  # bounded by `limit` below
        self._body = bytearray()  # the same bytes as in the unpacker, which only tells where values end
        self._passed = 0  # bytes of the stream before those
        self.failure: str | None = None
        self.stopped = False

    def read(self, data: bytes, inbox: deque[bytes], room: int) -> int:
        """Append at most `room` maps to `inbox`. Returns the number of bytes in them."""
        if self.failure is not None:
            return 0
        body = self._body
        body += data
        self._unpacker.feed(data)
        self.stopped = False
        at = 0
        while at < len(body):
            if room <= 0:
                self.stopped = True
                break
            end = self._end_of_map(at)
            if end is None:
                break
            with memoryview(body) as view:
                inbox.append(bytes(view[at:end]))
            at = end
            room -= 1
        del body[:at]
        self._passed += at
        if self.failure is not None:
            body.clear()
            self._unpacker = None
        return at

    def finish(self, inbox: deque[bytes]) -> int:
        """The stream has ended: all of its bytes must have been maps."""
        if self._body and self.failure is None:
            self.failure = "the input ended within a message"
        return 0

    def _end_of_map(self, at: int) -> int | None:
        """Where the map at `at` ends; None if it is not whole yet or not good."""
        head = self._body[at]
        if not 0x80 <= head < 0x90 and head != 0xDE and head != 0xDF:
            self.failure = f"a message begins with 0x{head:02x}, which is no MessagePack map"
            return None
        try:
            self._unpacker.skip()
            end: int = self._unpacker.tell() - self._passed
        except msgpack.OutOfData:
            end = len(self._body) + 1  # at least
        except (msgpack.FormatError, msgpack.StackError):
            self.failure = "a message is not MessagePack, or nested too deep"
            return None
        if end - at > self._limit:
            self.failure = f"a message may have {self._limit} bytes (max_message)"
            return None
        return end if end <= len(self._body) else None
