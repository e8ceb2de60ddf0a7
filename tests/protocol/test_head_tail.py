"""Head and tail of a stream (protocol.head_tail)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.head_tail import SMALL, HeadTail


@given(
    st.integers(0, 50),
    st.integers(1, 50),
    st.lists(st.binary(min_size=1, max_size=30), max_size=60),
)
def test_head_and_tail_are_exact_and_every_byte_is_accounted_for(head: int, tail: int, pieces: list[bytes]) -> None:
    """A model that is told how a build began and how it ended must be able to trust both, and the count between."""
    stream = b"".join(pieces)
    kept = HeadTail(head, tail)
    for piece in pieces:
        kept.append(piece)
    data, head_bytes, dropped = kept.excerpt()
    assert head_bytes == min(head, len(stream))
    assert data[:head_bytes] == stream[:head_bytes]
    held_tail = data[head_bytes:]
    assert stream.endswith(held_tail)
    assert len(held_tail) >= min(tail, len(stream) - head_bytes)
    assert len(data) + dropped == len(stream)


@given(st.integers(0, 20_000), st.integers(1, 20_000), st.lists(st.integers(1, 9000), min_size=1, max_size=40))
def test_memory_is_bounded(head: int, tail: int, sizes: list[int]) -> None:
    kept = HeadTail(head, tail)
    for size in sizes:
        kept.append(b"x" * size)
    assert len(kept.excerpt().data) <= head + tail + max(*sizes, 2 * SMALL)


def test_a_child_that_prints_a_byte_at_a_time_costs_a_byte_each() -> None:
    """Sixty thousand objects of a byte each would take megabytes."""
    kept = HeadTail(0, 65536)
    for _ in range(200_000):
        kept.append(b"x")
    assert len(kept._blocks) < 40
