"""Failed attempts: slowed, told of, and no burden."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from transport.admission.throttle import ADDRESSES, FIRST_S, FORGET_S, HELD, LOG_S, MOST_S, FailureThrottle

TIMES = st.lists(st.floats(0, 100), min_size=1, max_size=300)


def test_each_failure_costs_more() -> None:
    """Guessing is as fast as the network."""
    brake = FailureThrottle()
    delays = [brake.fail("10.0.0.1", float(n))[0] for n in range(10)]
    assert delays[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert delays[-1] == MOST_S
    assert brake.fail("10.0.0.2", 10.0)[0] == FIRST_S, "others do not pay for it"
    assert brake.fail("10.0.0.1", 11.0 + FORGET_S)[0] == FIRST_S, "nor for ever"


def test_what_is_not_held_takes_no_place() -> None:
    """A flood of requests that are refused at once frees those who guess from waiting."""
    brake = FailureThrottle()
    for number in range(HELD * 2):
        assert brake.fail(f"10.1.{number >> 8}.{number & 255}", 0.0, hold=False)[0] == 0.0
    assert brake.fail("10.0.0.1", 0.0)[0] == FIRST_S


def test_a_network_is_one_address() -> None:
    """Who has one IPv6 address has as many as he likes."""
    brake = FailureThrottle()
    brake.fail("2001:db8::1", 0.0)
    assert brake.fail("2001:db8::ffff:2", 0.0)[0] == 2 * FIRST_S
    assert brake.fail("2001:db8:0:1::1", 0.0)[0] == FIRST_S
    assert brake.fail("fe80::1%eth0", 0.0)[0] == FIRST_S


@given(TIMES)
def test_what_is_held_and_remembered_is_bounded(gaps: list[float]) -> None:
    """A flood from many addresses fills the memory or the table of descriptors."""
    brake, now, held = FailureThrottle(), 0.0, []
    for number in range(ADDRESSES + HELD):
        now += gaps[number % len(gaps)] / 1000
        delay, _ = brake.fail(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", now)
        held = [until for until in held if until > now]
        if delay:
            held.append(now + delay)
        assert len(held) <= HELD
    assert len(brake._addresses) <= ADDRESSES


@given(TIMES)
def test_every_failure_is_in_the_log_and_the_log_is_bounded(gaps: list[float]) -> None:
    """An attack that nobody sees, or one that fills the disk."""
    brake, now, lines, failures = FailureThrottle(), 0.0, [], 0
    for gap in gaps:
        now += gap / 100
        failures += 1
        stands_for = brake.fail("10.0.0.1", now)[1]
        if stands_for is not None:
            lines.append((now, stands_for))
    assert all(later - earlier >= LOG_S for (earlier, _), (later, _) in itertools.pairwise(lines))
    stands_for = brake.fail("10.0.0.1", now + 2 * LOG_S)[1]
    assert sum(count for _, count in lines) + (stands_for or 0) == failures + 1
