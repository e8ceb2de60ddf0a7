"""The idle clock of a child (actors.process.idle_timer)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.process.idle_timer import IdleTimer
from actors.system import clock


@given(st.lists(st.tuples(st.sampled_from(["wait", "stir", "hold", "release"]), st.floats(0, 10))))
def test_idle_time_is_what_passed_unheld_since_the_last_sign_of_life(steps: list[tuple[str, float]]) -> None:
    """A build must not be killed as silent because its client was slow to read."""
    now = 100.0
    with clock.replaced(lambda: now):
        idle = IdleTimer(5.0)
        passed, held = 0.0, False
        for step, seconds in steps:
            if step == "wait":
                now += seconds
                passed += 0 if held else seconds
            elif step == "stir":
                idle.touch()
                passed = 0.0
            elif step == "hold":
                idle.pause()
                held = True
            else:
                idle.resume()
                held = False
        remaining = idle.remaining()
        if held:
            assert remaining is None
        else:
            assert remaining is not None and abs(remaining - max(0.0, 5.0 - passed)) < 1e-6
