"""Deadlines on wakeups that cannot be cancelled (actors.base.deadlines)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.base.deadlines import Deadlines
from actors.process.read_coalescer import READS_IN_A_ROW, SMALL_READ, ReadCoalescer
from actors.system import clock


class Time:
    """A clock moved by hand, and the wakeups that were asked for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wakeups: list[tuple[float, object]] = []
        self.called: list[object] = []

    def wakeup_after(self, delta: timedelta, payload: object) -> None:
        self.wakeups.append((self.now + delta.total_seconds(), payload))

    def run(self, deadlines: Deadlines, until: float) -> list[tuple[float, object]]:
        """Let time pass; what fell due, and when."""
        fell_due: list[tuple[float, object]] = []
        while self.wakeups and min(self.wakeups, key=lambda each: each[0])[0] <= until:
            wakeup = min(self.wakeups, key=lambda each: each[0])
            self.wakeups.remove(wakeup)
            self.now = max(self.now, wakeup[0])
            for callback in deadlines.due(wakeup[1]):
                callback()
                fell_due.append((self.now, self.called.pop()))
        self.now = until
        return fell_due

    def call(self, key: object) -> Callable[[], None]:
        """A callback that tells the key that fell due."""
        return lambda: self.called.append(key)


@pytest.fixture
def time() -> Iterator[Time]:
    time = Time()
    with clock.replaced(lambda: time.now):
        yield time


def test_a_later_deadline_asks_for_no_wakeup_of_its_own(time: Time) -> None:
    """A thousand waiting reads would ask for a thousand wakeups."""
    deadlines = Deadlines(time.wakeup_after)
    deadlines.set("soon", 1, time.call("soon"))
    for number in range(100):
        deadlines.set(number, 10 + number, time.call(number))
    assert len(time.wakeups) == 1


def test_a_cancelled_deadline_does_not_fall_due(time: Time) -> None:
    deadlines = Deadlines(time.wakeup_after)
    deadlines.set("a", 1, time.call("a"))
    deadlines.set("b", 2, time.call("b"))
    deadlines.cancel("a")
    assert [key for _, key in time.run(deadlines, 1010)] == ["b"]


def test_a_wakeup_that_comes_early_is_asked_for_again(time: Time) -> None:
    """Timers of a loop may round down; a deadline must not be lost by it."""
    deadlines = Deadlines(time.wakeup_after)
    deadlines.set("a", 5, time.call("a"))
    _, payload = time.wakeups.pop()
    time.now += 4.9995
    assert deadlines.due(payload) == []
    assert [key for _, key in time.run(deadlines, 1010)] == ["a"]


def test_deadlines_set_and_cancelled_for_ever_take_no_memory(time: Time) -> None:
    deadlines = Deadlines(time.wakeup_after)
    for number in range(10_000):
        deadlines.set(number, 3600, time.call(number))
        deadlines.cancel(number)
    assert len(deadlines._heap) < 200


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 5), st.floats(0, 20)),
            st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0.0)),
            st.tuples(st.just("pass"), st.just(0), st.floats(0, 5)),
        )
    )
)
def test_every_deadline_falls_due_once_and_on_time(steps: list[tuple[str, int, float]]) -> None:
    time = Time()
    with clock.replaced(lambda: time.now):
        deadlines = Deadlines(time.wakeup_after)
        wanted: dict[int, float] = {}
        for step, key, value in steps:
            if step == "set":
                deadlines.set(key, value, time.call(key))
                wanted[key] = time.now + value
            elif step == "cancel":
                deadlines.cancel(key)
                wanted.pop(key, None)
            else:
                check(time, deadlines, wanted, time.now + value)
        check(time, deadlines, wanted, time.now + 100)
        assert not wanted


def check(time: Time, deadlines: Deadlines, wanted: dict[int, float], until: float) -> None:
    for when, key in time.run(deadlines, until):
        assert isinstance(key, int)
        assert abs(when - wanted.pop(key)) < 1e-5
    assert all(when > until - 1e-5 for when in wanted.values())


def test_a_flood_of_small_reads_is_given_a_rest_and_an_echo_is_not(time: Time) -> None:
    """A keystroke must not wait; a child that prints line by line may."""
    lull = ReadCoalescer()
    assert [lull.read(10) for _ in range(READS_IN_A_ROW + 1)] == [False] * READS_IN_A_ROW + [True]
    lull.end()
    assert lull.read(10)
    lull.on_input()
    assert not lull.resting and not lull.read(10)


def test_reads_that_are_large_or_far_apart_end_the_run(time: Time) -> None:
    lull = ReadCoalescer()
    for number in range(100):
        time.now += 0.01 if number % 2 else 0.0
        assert not lull.read(SMALL_READ if number % 5 == 0 else 10)
