"""What waits to be written to a child's standard input, and who waits for room; pure.

Order holds among the writes of one process: nothing overtakes a write that waits for room.
"""

from __future__ import annotations

from collections import deque

import msgspec

from actors.base.messages import Address

REMEMBERED_WRITE_IDS = 4096
"""How many distinct writeIds of a process are remembered: a repeated write is not written twice (docs/protocol.md,
"process/write").
"""


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write of a client, or, with `chunk` None, the wish to close standard input after all writes before it.

    `offset`, if given, is how many bytes of input the client knows to be accepted before this chunk.
    """

    token: int
    bridge: Address
    write_id: str | None
    chunk: bytes | None
    offset: int | None = None


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a write: accepted, or refused because its offset is ahead of all that was accepted."""

    write: Write
    accepted: bool
    accepted_bytes: int


class StdinQueue:
    """Bytes that are accepted and not yet written, bounded by `capacity` bytes.

    A chunk is accepted when it fits, or, if it is larger than the capacity, when the queue is empty. Until then its
    write waits, unanswered.
    """

    __slots__ = ("_capacity", "_chunks", "_queued", "_seen", "_waiting", "accepted_bytes", "ending")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._chunks: deque[memoryview] = deque()
        self._queued = 0
        self._waiting: deque[Write] = deque()
        self._seen: dict[str, None] = {}
        self.accepted_bytes = 0
        """All bytes that were ever accepted."""
        self.ending = False
        """Standard input closes when the queue is empty; later writes are refused."""

    def __len__(self) -> int:
        return self._queued

    def offer(self, write: Write) -> Settled | None:
        """The outcome of a write (accepted also if it was before, under its writeId); None while it waits for room."""
        if self._waiting or not self._fits(write):
            self._waiting.append(write)
            return None
        return self._settle(write)

    def remembers(self, write_id: str | None) -> bool:
        """Whether a write of this id was accepted, as far as that is remembered."""
        return write_id is not None and write_id in self._seen

    def next_chunk(self) -> memoryview | None:
        """The bytes to write next."""
        return self._chunks[0] if self._chunks else None

    def written(self, count: int) -> list[Settled]:
        """`count` bytes of `next_chunk` have been written; the outcomes of the writes that found room by that."""
        chunk = self._chunks.popleft()
        if count < len(chunk):
            self._chunks.appendleft(chunk[count:])
        self._queued -= count
        return self.settle_waiting()

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

    def settle_waiting(self) -> list[Settled]:
        """The outcomes of the writes that waited and need to no longer."""
        settled = []
        while self._waiting and self._fits(self._waiting[0]):
            settled.append(self._settle(self._waiting.popleft()))
        return settled

    def _fits(self, write: Write) -> bool:
        if write.chunk is None or self._queued == 0:
            return True
        return self._queued + len(write.chunk) <= self._capacity

    def _settle(self, write: Write) -> Settled:
        chunk = write.chunk
        if chunk is None:
            self.ending = True
            return Settled(write, True, self.accepted_bytes)
        if write.write_id is not None and write.write_id in self._seen:
            return Settled(write, True, self.accepted_bytes)
        if write.offset is not None:
            if write.offset > self.accepted_bytes:
                return Settled(write, False, self.accepted_bytes)
            chunk = chunk[self.accepted_bytes - write.offset :]
        self._remember(write.write_id)
        if chunk and not self.ending:
            self._chunks.append(memoryview(chunk))
            self._queued += len(chunk)
            self.accepted_bytes += len(chunk)
        return Settled(write, True, self.accepted_bytes)

    def _remember(self, write_id: str | None) -> None:
        if write_id is not None:
            self._seen[write_id] = None
            if len(self._seen) > REMEMBERED_WRITE_IDS:
                del self._seen[next(iter(self._seen))]
