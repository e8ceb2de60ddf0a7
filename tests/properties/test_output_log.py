"""OutputLog against a plain list of everything ever written."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.output_log import SMALL, SMALL_COST, OutputLog
from protocol.process import Stream
from tests.support.examples import examples


class Written(NamedTuple):
    seq: int
    stream: Stream
    offset: int
    data: bytes


STREAMS: list[Stream] = ["stdout", "stderr", "pty"]
SIZES = st.one_of(st.integers(1, 3), st.integers(1, 300), st.sampled_from([SMALL - 1, SMALL, SMALL + 1, 3 * SMALL]))


def charge(data: bytes) -> int:
    return len(data) + (SMALL_COST if len(data) < SMALL else 0)


class LogAgainstList(RuleBasedStateMachine):
    """Whatever is written, counted and read in whatever order, the log shows the newest part of the list."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Written] = []
        self.next_seq = 1
        self.total = 0
        self.capacity = 8 * 1024
        self.log = OutputLog(self.capacity)

    @precondition(lambda self: self.next_seq == 1)
    @rule(capacity=st.sampled_from([0, 1, 162, 1000, 5000, 20_000]))
    def choose_capacity(self, capacity: int) -> None:
        self.capacity = capacity
        self.log = OutputLog(capacity)

    def write(self, stream: Stream, size: int) -> None:
        data = bytes([self.next_seq % 256]) * size
        chunk = self.log.append(stream, data)
        self.written.append(Written(self.next_seq, stream, self.total, data))
        assert (chunk.seq, chunk.stream, chunk.offset, chunk.chunk) == self.written[-1]
        self.next_seq += 1
        self.total += size

    @rule(stream=st.sampled_from(STREAMS), size=SIZES)
    def append(self, stream: Stream, size: int) -> None:
        self.write(stream, size)

    @rule(stream=st.sampled_from(STREAMS), size=st.integers(1, 40), count=st.integers(1, 400))
    def flood_of_small_chunks(self, stream: Stream, size: int, count: int) -> None:
        for _ in range(count):
            self.write(stream, size)

    @rule()
    def take_seq(self) -> None:
        assert self.log.take_seq() == self.next_seq
        self.next_seq += 1

    def retained(self) -> list[Written]:
        kept: list[Written] = []
        used = 0
        for item in reversed(self.written):
            used += charge(item.data)
            if used > self.capacity:
                break
            kept.append(item)
        return kept[::-1]

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        after = data.draw(st.one_of(st.integers(0, self.next_seq + 3), st.just(2**64 - 1)))
        limit = data.draw(
            st.one_of(st.none(), st.integers(0, 2000), st.integers(0, self.total + 1), st.just(2**64 - 1))
        )
        expected: list[Written] = []
        size = 0
        cut = False
        for item in self.retained():
            if item.seq <= after:
                continue
            if expected and limit is not None and size + len(item.data) > limit:
                cut = True
                break
            expected.append(item)
            size += len(item.data)
        chunks, next_seq = self.log.read(after, limit)
        assert [(c.seq, c.stream, c.offset, c.chunk) for c in chunks] == expected
        assert next_seq == (expected[-1].seq + 1 if cut else self.next_seq)

    @rule(limit=st.integers(0, 3000))
    def poll_to_the_end(self, limit: int) -> None:
        """A client that goes on from `nextSeq - 1` sees every held byte once."""
        seen: list[int] = []
        after = 0
        while True:
            chunks, next_seq = self.log.read(after, limit)
            seen += [chunk.seq for chunk in chunks]
            if next_seq == self.next_seq:
                break
            after = next_seq - 1
        assert seen == [item.seq for item in self.retained()]

    @invariant()
    def books_balance(self) -> None:
        kept = self.retained()
        log = self.log
        assert log.next_seq == self.next_seq
        assert log.total_bytes == self.total
        assert log.retained_bytes == sum(len(item.data) for item in kept)
        assert log.evicted_bytes == self.total - log.retained_bytes
        assert log.first_retained_seq == (kept[0].seq if kept else None)
        assert log.first_retained_offset == (kept[0].offset if kept else None)


LogAgainstList.TestCase.settings = settings(examples(60), stateful_step_count=25)
TestLogAgainstList = LogAgainstList.TestCase
