"""Observers of other sessions' processes, and the gaps they are told (actors.router.observers)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.router.observers import Observer, Observers
from protocol.process import ProcessClosed, ProcessExited, ProcessGap, ProcessOutput


def output(seq: int, size: int) -> ProcessOutput:
    return ProcessOutput(process_id="p", seq=seq, stream="stdout", offset=0, chunk=b"x" * size)


@given(st.lists(st.one_of(st.integers(1, 9), st.booleans())))
def test_an_observer_hears_every_seq_or_is_told_that_it_was_left_out(steps: list[int | bool]) -> None:
    """Output (a size), congestion and relief in any order: no seq is missing without a gap, and the bytes are exact."""
    observer = Observer("watcher", "bridge", "alias")
    sizes: dict[int, int] = {}
    heard: list[object] = []
    seq = 0
    for step in steps:
        if isinstance(step, bool):
            observer.congested = step
            if not step:
                heard += observer.take_gap()
        else:
            seq += 1
            sizes[seq] = step
            heard += observer.hear(output(seq, step))
    exited = ProcessExited(process_id="p", seq=seq + 1, exit_code=0)
    heard += [*observer.hear(exited), *observer.hear(ProcessClosed(process_id="p", seq=seq + 2))]
    expected = 1
    for event in heard:
        assert event.process_id == "alias"
        if isinstance(event, ProcessGap):
            assert event.from_seq == expected
            assert event.bytes == sum(sizes[each] for each in range(event.from_seq, event.to_seq + 1))
            expected = event.to_seq + 1
        else:
            assert event.seq == expected
            expected += 1
    assert expected == seq + 3


def test_each_observer_hears_under_its_own_id_until_it_is_removed() -> None:
    observers = Observers()
    observers.add("s", "p", Observer("one", "bridge 1", "a"))
    observers.add("s", "p", Observer("two", "bridge 2", "b"))
    assert [each.alias for each in observers.of("s", "p")] == ["a", "b"]
    observers.remove("one", "a")
    assert [each.alias for each in observers.of("s", "p")] == ["b"]
    observers.remove_all("two")
    assert observers.of("s", "p") == [] and observers.by("two") == []


def test_a_closed_process_is_heard_no_more_but_still_known() -> None:
    """Its id may be used again in its session: whoever watched the old one must not hear the new one."""
    observers = Observers()
    observers.add("s", "p", Observer("one", "bridge", "a"))
    observers.close("s", "p")
    assert observers.of("s", "p") == [] and observers.target("one", "a") == ("s", "p")
    observers.remove_all("one")
    assert observers._by_observer == {} and observers._by_process == {}
