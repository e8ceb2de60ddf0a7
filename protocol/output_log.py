"""OutputLog: what is kept of one process's output, in the order of its sequence numbers (docs/protocol.md,
"process/read").

One counter, from 1, numbers output chunks and the two events `exited` and `closed`. The log holds the newest
whole chunks whose charge fits the capacity. A chunk of 4 KiB or more is charged its bytes; a smaller one also
`SMALL_COST`, about what CPython needs to keep it beyond its bytes, so that a child which prints a byte at a
time cannot make the log take more memory than the capacity says.
"""

from __future__ import annotations

from bisect import bisect_right

from protocol.process import OutputChunk, Stream

SMALL = 4096
"""Bytes from which a chunk is charged its size alone: the cost left out is then at most 4 % of it."""
SMALL_COST = 160
"""Bytes: a chunk's struct (48), its two numbers (64), the header of its bytes (33), its place in a list (8 to
16).
"""
_COMPACT_AT = 64


def _seq(chunk: OutputChunk) -> int:
    return chunk.seq


def _end(chunk: OutputChunk) -> int:
    return chunk.offset + len(chunk.chunk)


class OutputLog:
    """The retained output of one process, charged at most `capacity` bytes. One owner, no locks.

    `next_seq`: the number that the next chunk or event will get. `total_bytes`: all that was ever appended,
    which is the offset of the next chunk, and `total_charged` what it was charged. `evicted_bytes`: how many of
    those, the oldest, are no longer held.
    """

    __slots__ = (
        "_charged",
        "_chunks",
        "_head",
        "_unlogged",
        "capacity",
        "evicted_bytes",
        "next_seq",
        "total_bytes",
        "total_charged",
    )

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.next_seq = 1
        self.total_bytes = 0
        self.total_charged = 0
        self.evicted_bytes = 0
        self._charged = 0
        # Chunks from index _head on are held. Evicted places before it are given back in bulk: O(1) an
        # eviction.
        self._chunks: list[OutputChunk] = []
        self._head = 0
        # How many numbers went to events, which bounds how far a chunk can stand from the place its seq
        # suggests.
        self._unlogged = 0

    @property
    def retained_bytes(self) -> int:
        """Bytes of output that are held."""
        return self.total_bytes - self.evicted_bytes

    @property
    def charged(self) -> int:
        """What the held output is charged, at most `capacity`."""
        return self._charged

    @property
    def first_retained_seq(self) -> int | None:
        """The lowest seq of output that is held, None if there is none."""
        return self._chunks[self._head].seq if self._head < len(self._chunks) else None

    @property
    def first_retained_offset(self) -> int | None:
        """The offset of the first byte that is held, None if there is none."""
        return self._chunks[self._head].offset if self._head < len(self._chunks) else None

    def append(self, stream: Stream, data: bytes) -> OutputChunk:
        """Number a piece of output, keep it, and drop the oldest chunks while the log is over its capacity.

        Raises ValueError for empty data: a read that gives none is an end of file, not output.
        """
        size = len(data)
        if not size:
            raise ValueError("a chunk of output is never empty")
        chunk = OutputChunk(seq=self.next_seq, stream=stream, offset=self.total_bytes, chunk=data)
        self.next_seq += 1
        self.total_bytes += size
        charge = size if size >= SMALL else size + SMALL_COST
        self._charged += charge
        self.total_charged += charge
        self._chunks.append(chunk)
        if self._charged > self.capacity:
            self._evict()
        return chunk

    def take_seq(self) -> int:
        """The next number, for an event that is not output."""
        seq = self.next_seq
        self.next_seq += 1
        self._unlogged += 1
        return seq

    def read(self, after_seq: int = 0, max_bytes: int | None = None) -> tuple[list[OutputChunk], int]:
        """Held chunks with a seq above `after_seq`, and the seq to go on from (docs/protocol.md, "process/read").

        Chunks are taken while their bytes together stay within `max_bytes` (None: no limit); the first is
        always taken whole. If the limit left some out, the second value is the last taken seq + 1; else it is
        `next_seq`.
        """
        chunks = self._chunks
        start = self._index_after(after_seq)
        if start == len(chunks):
            return [], self.next_seq
        if max_bytes is None:
            return chunks[start:], self.next_seq
        # Held output is one run of bytes, so a chunk's place in it says whether it fits.
        stop = bisect_right(chunks, chunks[start].offset + max_bytes, start + 1, key=_end)
        return chunks[start:stop], self.next_seq if stop == len(chunks) else chunks[stop - 1].seq + 1

    def tail(self, size: int) -> bytes:
        """The last `size` bytes of all streams together, or what is held of them."""
        parts: list[bytes] = []
        for index in range(len(self._chunks) - 1, self._head - 1, -1):
            parts.append(self._chunks[index].chunk[-size:])
            size -= len(parts[-1])
            if not size:
                break
        return b"".join(reversed(parts))

    def _index_after(self, after_seq: int) -> int:
        chunks, head = self._chunks, self._head
        if head == len(chunks) or after_seq < chunks[head].seq:
            return head
        # Without events in between, seqs are consecutive: the place is known but for the numbers that events
        # took.
        highest = min(head + after_seq - chunks[head].seq + 1, len(chunks))
        if not self._unlogged:
            return highest
        lowest = max(highest - self._unlogged, head)
        return bisect_right(chunks, after_seq, lowest, highest, key=_seq)

    def _evict(self) -> None:
        chunks, head = self._chunks, self._head
        while self._charged > self.capacity:
            size = len(chunks[head].chunk)
            self._charged -= size if size >= SMALL else size + SMALL_COST
            self.evicted_bytes += size
            chunks[head] = _NOTHING
            head += 1
        if head == len(chunks) or (head >= _COMPACT_AT and head * 2 >= len(chunks)):
            del chunks[:head]
            head = 0
        self._head = head


_NOTHING = OutputChunk(seq=0, stream="stdout", offset=0, chunk=b"")
