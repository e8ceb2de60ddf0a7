"""Watermark: the two marks between which whoever makes something is left as he is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.watermark import Watermark


@given(st.lists(st.integers(0, 20)))
def test_it_calls_once_a_crossing(sizes: list[int]) -> None:
    """Lost: the memory that the marks are for; or a child that is held for ever."""
    calls: list[bool] = []
    mark = Watermark(10, 4, lambda: calls.append(True), lambda: calls.append(False))
    for size in sizes:
        mark.update(size)
        assert mark.above or size <= 10
        assert not mark.above or size > 4
        assert mark.above == bool(calls and calls[-1])
    assert calls == [number % 2 == 0 for number in range(len(calls))]
