"""What an observer is sent first: everything that happened, or a gap where it is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.record import ProcessRecord
from protocol.process import ProcessClosed, ProcessExited, ProcessGap, ProcessOutput

outputs = st.lists(st.integers(1, 9000), max_size=12)
capacities = st.sampled_from([0, 200, 5000, 20_000])


def printed(before: list[int], after: list[int] | None, closed: bool, capacity: int) -> ProcessRecord:
    """The record of a process that printed chunks of these sizes before and after its exit; None: it runs."""
    record = ProcessRecord("p", capacity, 0)
    for size in before:
        record.output("stdout", bytes(size))
    if after is not None:
        record.exited(0, None, None)
        for size in after:
            record.output("stderr", bytes(size))
        if closed:
            record.closed()
    return record


@given(outputs, st.none() | outputs, st.booleans(), capacities, st.integers(0, 30))
def test_every_seq_is_replayed_once_or_in_a_gap(
    before: list[int], after: list[int] | None, closed: bool, capacity: int, after_seq: int
) -> None:
    """An observer that counts must be right: no number twice, none missing, and from the start every byte told."""
    record = printed(before, after, closed, capacity)
    expected, size = after_seq + 1, 0
    for event in record.replay(after_seq):
        match event:
            case ProcessGap():
                assert expected == event.from_seq <= event.to_seq and event.bytes > 0
                expected = event.to_seq + 1
                size += event.bytes
            case ProcessOutput():
                assert event.seq == expected
                expected += 1
                size += len(event.chunk)
            case ProcessExited() | ProcessClosed():
                assert event.seq == expected
                expected += 1
    assert expected == max(record.next_seq, after_seq + 1)
    if after_seq == 0:
        assert size == sum(before) + sum(after or [])


def test_a_gap_ends_at_the_exit_and_another_begins_behind_it() -> None:
    """`exited` is kept whatever is evicted, so a gap over its number would tell of it twice."""
    gap, exit, late, output = printed([3000], [9000, 5000], closed=False, capacity=5000).replay(0)
    assert isinstance(gap, ProcessGap) and (gap.from_seq, gap.to_seq, gap.bytes) == (1, 1, 3000)
    assert isinstance(exit, ProcessExited) and exit.seq == 2
    assert isinstance(late, ProcessGap) and (late.from_seq, late.to_seq, late.bytes) == (3, 3, 9000)
    assert isinstance(output, ProcessOutput) and output.seq == 4
