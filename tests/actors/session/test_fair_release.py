"""Whose output is read while a client is slow (actors.session.fair_release)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.session.fair_release import RELEASED_AT_ONCE, FairRelease


def released(flow: FairRelease) -> list[str]:
    """Release and answer until nobody is left; the order in which processes went on."""
    order: list[str] = []
    flow.release()
    while batch := flow.next_batch():
        order += batch
        for process_id in batch:
            flow.answered(process_id)
    return order


def test_a_slow_client_holds_every_process_of_its_session() -> None:
    flow = FairRelease()
    flow.add("a")
    flow.add("b")
    assert flow.hold() == ["a", "b"]


def test_a_process_started_while_held_is_released_with_the_others() -> None:
    """It would stay silent for ever otherwise."""
    flow = FairRelease()
    flow.hold()
    flow.add("late")
    assert released(flow) == ["late"]


def test_only_a_few_go_on_at_a_time() -> None:
    """A thousand held children must not fill the memory with a chunk each the moment the client reads a little."""
    flow = FairRelease()
    for number in range(20):
        flow.add(str(number))
    flow.hold()
    flow.release()
    assert len(flow.next_batch()) == RELEASED_AT_ONCE
    assert flow.next_batch() == []


def test_the_next_ones_wait_for_all_answers() -> None:
    flow = FairRelease()
    for number in range(RELEASED_AT_ONCE + 1):
        flow.add(str(number))
    flow.hold()
    flow.release()
    first = flow.next_batch()
    for process_id in first[:-1]:
        flow.answered(process_id)
    assert flow.next_batch() == []
    flow.answered(first[-1])
    assert flow.next_batch() == [str(RELEASED_AT_ONCE)]


def test_a_process_that_ends_before_it_answers_does_not_stop_the_others() -> None:
    flow = FairRelease()
    for number in range(RELEASED_AT_ONCE + 1):
        flow.add(str(number))
    flow.hold()
    flow.release()
    for process_id in flow.next_batch():
        flow.remove(process_id)
    assert flow.next_batch() == [str(RELEASED_AT_ONCE)]


def test_those_that_waited_go_before_those_that_just_ran() -> None:
    """A child that floods its client must not keep a quiet one waiting."""
    flow = FairRelease()
    names = [str(number) for number in range(RELEASED_AT_ONCE * 2)]
    for name in names:
        flow.add(name)
    flow.hold()
    flow.release()
    first = flow.next_batch()
    assert flow.hold() == first
    flow.release()
    for name in first:
        flow.answered(name)
    assert set(flow.next_batch()) == set(names) - set(first)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "hold", "release", "answer"]), st.integers(0, 9))))
def test_no_process_is_forgotten(steps: list[tuple[str, int]]) -> None:
    """Whatever happens in between: when the client reads again, every living process goes on."""
    flow = FairRelease()
    alive: set[str] = set()
    held: set[str] = set()
    for step, number in steps:
        name = str(number)
        if step == "add" and name not in alive:
            alive.add(name)
            if flow.held:
                held.add(name)
            flow.add(name)
        elif step == "remove":
            flow.remove(name)
            alive.discard(name)
            held.discard(name)
        elif step == "hold":
            held.update(flow.hold())
        elif step == "release":
            flow.release()
        elif step == "answer":
            flow.answered(name)
        batch = flow.next_batch()
        assert set(batch) <= held and not (batch and flow.held)
        held -= set(batch)
    for name in alive:
        flow.answered(name)
    assert set(released(flow)) == held
