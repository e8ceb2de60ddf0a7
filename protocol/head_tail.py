"""HeadTail: the first and the last bytes of one stream, with the exact number of bytes left out between them.

Kept apart from the OutputLog and one a stream, so that a flood on one stream never evicts what another printed.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SMALL = 4096
"""Smaller pieces are joined into blocks of about this size: a child that prints a byte at a time costs a byte each."""


class Excerpt(NamedTuple):
    """`data` is head then tail; where `dropped_bytes` > 0 the hole is after the first `head_bytes` of it."""

    data: bytes
    head_bytes: int
    dropped_bytes: int


class HeadTail:
    """The first `head_limit` bytes and at least the last `tail_limit` (1 or more) bytes of a stream; holds at most
    `head_limit` + `tail_limit` bytes and one piece more.
    """

    __slots__ = ("_blocks", "_head", "_head_limit", "_tail_bytes", "_tail_limit", "total_bytes")

    def __init__(self, head_limit: int, tail_limit: int) -> None:
        self._head_limit = head_limit
        self._tail_limit = tail_limit
        self._head = bytearray()
        self._blocks: deque[bytes | bytearray] = deque()
        self._tail_bytes = 0
        self.total_bytes = 0
        """All bytes that were ever appended."""

    def append(self, data: bytes) -> None:
        """The next bytes of the stream."""
        self.total_bytes += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._append_tail(data)

    @property
    def held_bytes(self) -> int:
        """Bytes that are held now."""
        return len(self._head) + self._tail_bytes

    def excerpt(self) -> Excerpt:
        """What is held now. Nothing is dropped while the stream is no longer than head and tail together."""
        data = b"".join((self._head, *self._blocks))
        return Excerpt(data, len(self._head), self.total_bytes - len(data))

    def _append_tail(self, data: bytes) -> None:
        last = self._blocks[-1] if self._blocks else None
        if len(data) >= SMALL:
            self._blocks.append(data)
        elif isinstance(last, bytearray) and len(last) < SMALL:
            last += data
        else:
            self._blocks.append(bytearray(data))
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._blocks[0]) >= self._tail_limit:
            self._tail_bytes -= len(self._blocks.popleft())
