"""What waits to be written to a child's standard input, and who waits for room; pure.

Order holds among the writes of one process: nothing overtakes a write that waits for room.
"""

from __future__ import annotations

from collections import deque

import msgspec

from actors.messages import Address

REMEMBERED_WRITE_IDS = 4096
"""How many distinct writeIds of a process are remembered: a repeated write is not written twice (wire-spec 5.4)."""


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write of a client, or, with `chunk` None, the wish to close standard input after all writes before it."""

    token: int
    bridge: Address
    write_id: str | None
    chunk: bytes | None


class StdinQueue:
    """Bytes that are accepted and not yet written, bounded by `capacity` bytes.

    A chunk is accepted when it fits, or, if it is larger than the capacity, when the queue is empty. Until then its
    write waits, unanswered.
    """

    __slots__ = ("_capacity", "_chunks", "_queued", "_seen", "_waiting", "ending")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._chunks: deque[memoryview] = deque()
        self._queued = 0
        self._waiting: deque[Write] = deque()
        self._seen: dict[str, None] = {}
        self.ending = False
        """Standard input closes when the queue is empty; later writes are refused."""

    def __len__(self) -> int:
        return self._queued

    def offer(self, write: Write) -> bool:
        """True if the write is accepted now (or was before, under its writeId); False if it waits for room."""
        if self._waiting or not self._fits(write):
            self._waiting.append(write)
            return False
        self._accept(write)
        return True

    def next_chunk(self) -> memoryview | None:
        """The bytes to write next."""
        return self._chunks[0] if self._chunks else None

    def written(self, count: int) -> list[Write]:
        """`count` bytes of `next_chunk` have been written; the writes that are accepted now that there is room."""
        chunk = self._chunks.popleft()
        if count < len(chunk):
            self._chunks.appendleft(chunk[count:])
        self._queued -= count
        accepted = []
        while self._waiting and self._fits(self._waiting[0]):
            write = self._waiting.popleft()
            self._accept(write)
            accepted.append(write)
        return accepted

    def close(self) -> list[Write]:
        """Standard input is gone: nothing of the queue will be written; the writes that still wait for an answer."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._chunks.clear()
        self._queued = 0
        return waiting

    def withdraw(self, bridge: Address) -> list[Write]:
        """Take back the unanswered writes of a bridge; they were never accepted and may be sent again."""
        withdrawn = [write for write in self._waiting if write.bridge == bridge]
        self._waiting = deque(write for write in self._waiting if write.bridge != bridge)
        return withdrawn

    def _fits(self, write: Write) -> bool:
        if write.chunk is None or self._queued == 0:
            return True
        return self._queued + len(write.chunk) <= self._capacity

    def _accept(self, write: Write) -> None:
        if write.chunk is None:
            self.ending = True
            return
        if write.write_id is not None:
            if write.write_id in self._seen:
                return
            self._seen[write.write_id] = None
            if len(self._seen) > REMEMBERED_WRITE_IDS:
                del self._seen[next(iter(self._seen))]
        if write.chunk and not self.ending:
            self._chunks.append(memoryview(write.chunk))
            self._queued += len(write.chunk)
