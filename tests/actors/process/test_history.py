"""What an observer is sent first: everything that happened, or a gap where it is gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.process.history import ProcessHistory
from protocol.errors import InvalidParams
from protocol.process import ProcessClosed, ProcessExited, ProcessGap, ProcessOutput

outputs = st.lists(st.integers(1, 9000), max_size=12)
capacities = st.sampled_from([0, 200, 5000, 20_000])


def printed(before: list[int], after: list[int] | None, closed: bool, capacity: int) -> ProcessHistory:
    """The record of a process that printed chunks of these sizes before and after its exit; None: it runs."""
    record = ProcessHistory("p", capacity, 0)
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
    """An observer that counts must be right: no number twice, none missing, every byte told, wherever it went on."""
    record = printed(before, after, closed, capacity)
    printed_at = [*before, 0, *(after or [])]
    heard = sum(printed_at[:after_seq])
    expected, size = after_seq + 1, heard
    for event in record.replay(after_seq, heard):
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
    assert size == sum(printed_at)
    assert record.replay(0, None) == record.replay(0, 0)


@given(outputs.filter(len), st.none() | outputs, capacities, st.data())
def test_a_position_that_cannot_be_is_refused(
    before: list[int], after: list[int] | None, capacity: int, data: st.DataObject
) -> None:
    """A count that is wrong from then on, where the observer mixed up two processes, or characters and bytes."""
    record = printed(before, after, True, capacity)
    retained = [event.seq for event in record.replay(0) if isinstance(event, ProcessOutput)]
    after_seq = data.draw(st.integers(0, len(before)))
    heard = sum(before[:after_seq])
    beyond = sum(before) + sum(after or []) + 1
    wrong = [beyond] if after_seq + 1 not in retained else [beyond, heard + 1, *([heard - 1] if heard else [])]
    for offset in wrong:
        with pytest.raises(InvalidParams, match="afterOffset") as error:
            record.replay(after_seq, offset)
        assert error.value.data == {"kind": "wrongOffset"}


def test_without_a_head_the_tail_is_kept_and_the_rest_counted() -> None:
    """The end of a build on a server that was told to keep no heads."""
    record = ProcessHistory("p", 0, 0)
    for n in range(100):
        record.output("stdout", b"%d" % (n % 10) * 5000)
    snapshot = record.snapshot()
    assert snapshot.head_bytes.stdout == 0 and snapshot.truncated
    assert len(snapshot.stdout) + snapshot.dropped_bytes.stdout == 500_000
    assert 65536 <= len(snapshot.stdout) < 65536 + 5000 and snapshot.stdout.endswith(b"8" * 5000 + b"9" * 5000)


def test_a_gap_ends_at_the_exit_and_another_begins_behind_it() -> None:
    """`exited` is kept whatever is evicted, so a gap over its number would tell of it twice."""
    gap, exit, late, output = printed([3000], [9000, 5000], closed=False, capacity=5000).replay(0)
    assert isinstance(gap, ProcessGap) and (gap.from_seq, gap.to_seq, gap.bytes) == (1, 1, 3000)
    assert isinstance(exit, ProcessExited) and exit.seq == 2
    assert isinstance(late, ProcessGap) and (late.from_seq, late.to_seq, late.bytes) == (3, 3, 9000)
    assert isinstance(output, ProcessOutput) and output.seq == 4
