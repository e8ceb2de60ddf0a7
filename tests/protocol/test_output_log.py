"""OutputLog: numbering, eviction and reading (docs/protocol.md, "process/read"). The rules for all inputs are in
tests/properties.
"""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from protocol.output_log import SMALL, SMALL_COST, OutputLog

MIB = 1 << 20


def test_numbers_are_shared_by_streams_and_events() -> None:
    """A client that orders by seq would see a hole or a repetition."""
    log = OutputLog(MIB)
    assert (log.next_seq, log.first_retained_seq, log.first_retained_offset) == (1, None, None)
    first = log.append("stdout", b"ab")
    assert log.take_seq() == 2
    second = log.append("stderr", b"c")
    assert log.take_seq() == 4
    assert [(c.seq, c.stream, c.offset, c.chunk) for c in (first, second)] == [
        (1, "stdout", 0, b"ab"),
        (3, "stderr", 2, b"c"),
    ]
    assert log.read() == ([first, second], 5)
    assert log.read(2) == ([second], 5)
    assert log.read(3) == ([], 5)
    assert log.read(99) == ([], 5)
    assert (log.total_bytes, log.retained_bytes, log.evicted_bytes) == (3, 3, 0)


def test_a_read_shares_the_chunks() -> None:
    """Every reader would cost another copy of the output."""
    log = OutputLog(MIB)
    chunk = log.append("pty", b"x" * 100)
    assert log.read()[0][0] is chunk


def test_max_bytes_gives_the_first_chunk_whole() -> None:
    """A client with a small buffer would never get anything, or be told to go on from the wrong place."""
    log = OutputLog(MIB)
    for data in (b"12345", b"678", b"9"):
        log.append("stdout", data)
    closed = log.take_seq()
    numbers = {limit: ([c.seq for c in log.read(0, limit)[0]], log.read(0, limit)[1]) for limit in range(11)}
    assert all(numbers[limit] == ([1], 2) for limit in range(8))
    assert numbers[8] == ([1, 2], 3)
    assert numbers[9] == numbers[10] == ([1, 2, 3], closed + 1)
    assert [c.seq for c in log.read(2, 0)[0]] == [3]
    assert log.read(2, 0)[1] == closed + 1


def test_large_chunks_use_the_whole_capacity() -> None:
    """The promised megabyte would hold only 15 reads of 64 KiB."""
    log = OutputLog(MIB)
    for _ in range(20):
        log.append("stdout", b"x" * 65536)
    assert log.retained_bytes == MIB
    assert (log.evicted_bytes, log.first_retained_seq, log.first_retained_offset) == (4 * 65536, 5, 4 * 65536)


def test_upstream_sized_chunks_are_kept_as_upstream_keeps_them() -> None:
    """What a returning client finds would be less than upstream keeps: 128 chunks of 8 KiB."""
    log = OutputLog(MIB)
    for _ in range(1000):
        log.append("stdout", b"x" * 8192)
    assert len(log.read()[0]) == 128


def test_a_chunk_larger_than_the_capacity_is_numbered_and_not_kept() -> None:
    """A small capacity would be exceeded by as much as the largest chunk."""
    log = OutputLog(1000)
    log.append("stdout", b"x" * 1001)
    assert (log.retained_bytes, log.evicted_bytes, log.first_retained_seq, log.read()) == (
        0,
        1001,
        None,
        ([], 2),
    )
    kept = log.append("stdout", b"y")
    assert log.read() == ([kept], 3)


def test_empty_data_is_refused() -> None:
    """An end of file would be numbered and sent as output."""
    log = OutputLog(MIB)
    with pytest.raises(ValueError, match="empty"):
        log.append("stdout", b"")
    assert log.next_seq == 1


@pytest.mark.parametrize("size", [1, 2, 40, 1000, SMALL - 1, SMALL])
def test_real_memory_stays_near_the_capacity(size: int) -> None:
    """A child that prints a byte at a time would take many times the memory the operator allowed."""
    capacity = 256 * 1024
    gc.collect()
    tracemalloc.start()
    try:
        log = OutputLog(capacity)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3 * capacity // (size + SMALL_COST)):
            log.append("stdout", b"%0*d" % (size, number % 10 ** min(size, 9)))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used < 1.2 * capacity
    assert used > 0.7 * capacity


def test_what_is_evicted_leaves_nothing_behind() -> None:
    """A child that prints for days would fill the memory through the places of chunks long gone."""
    log = OutputLog(16 * 1024)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50_000):
            log.append("stdout", b"ab")
        assert tracemalloc.get_traced_memory()[0] - before < 24 * 1024
    finally:
        tracemalloc.stop()


def test_an_idle_log_is_small() -> None:
    """A thousand quiet children would cost megabytes."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        logs = [OutputLog(MIB) for _ in range(100)]
        assert (tracemalloc.get_traced_memory()[0] - before) / len(logs) < 400
    finally:
        tracemalloc.stop()
