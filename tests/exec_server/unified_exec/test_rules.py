"""What unified exec decides without any I/O: sizes, windows, characters, cuts, who has to go, and stopped time."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_server.unified_exec import SandboxDenied, Snapshot, StdinClosed, UnknownCommand
from exec_server.unified_exec.characters import PIECE_BYTES, WholeCharacters
from exec_server.unified_exec.clock import YieldClock
from exec_server.unified_exec.cutting import cut, shown
from exec_server.unified_exec.eviction import MAX_PROCESSES, PROTECTED, Candidate, victim
from exec_server.unified_exec.limits import RETAINED_BYTES, estimated_tokens, output_limit, yield_window_ms
from exec_server.unified_exec.table import CommandTable
from protocol.errors import Busy
from protocol.head_tail import Excerpt, HeadTail

TEXT = st.text(st.characters(codec="utf-8"), max_size=200) | st.text("aé€😀\n", max_size=300)


@pytest.mark.parametrize(
    ("asked", "poll", "window"),
    [
        (None, False, 10_000),
        (None, True, 5_000),
        (0, False, 250),
        (-1, True, 250),
        (249, True, 250),
        (251, False, 251),
        (30_000, False, 30_000),
        (3_600_000, True, 30_000),
    ],
)
def test_windows(asked: int | None, poll: bool, window: int) -> None:
    """A model that asks for an hour must not hang for one, and one that asks for nothing must not spin."""
    assert yield_window_ms(asked, poll=poll) == window


@pytest.mark.parametrize(
    ("max_bytes", "max_tokens", "limit"),
    [
        (None, None, 40_000),
        (100, None, 100),
        (None, 100, 400),
        (100, 100, 100),
        (1000, 100, 400),
        (0, None, 0),
        (10**9, None, RETAINED_BYTES),
        (None, 10**9, RETAINED_BYTES),
    ],
)
def test_output_limits(max_bytes: int | None, max_tokens: int | None, limit: int) -> None:
    assert output_limit(max_bytes, max_tokens) == limit


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_output_bytes is a size, not -1"):
        output_limit(-1, None)
    with pytest.raises(ValueError, match="max_output_tokens is a size, not -2"):
        output_limit(None, -2)


def test_tokens_are_estimated() -> None:
    assert [estimated_tokens(size) for size in (0, 1, 4, 5, 40_000)] == [0, 1, 1, 2, 10_000]


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(each, len(data)) for each in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@given(TEXT, st.lists(st.integers(0, 1200), max_size=20))
def test_no_character_is_broken_however_the_bytes_come(text: str, cuts: list[int]) -> None:
    """Lost: every letter with an accent that happens to stand at the end of a chunk."""
    characters = WholeCharacters()
    out = [piece for data in pieces_of(text.encode(), cuts) for piece in characters.feed(data)]
    assert characters.finish() == []
    assert "".join(piece.decode() for piece in out) == text


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=20))
def test_bytes_that_are_no_text_pass_unchanged_and_are_not_held_back(data: bytes, cuts: list[int]) -> None:
    characters = WholeCharacters()
    out, fed = b"", 0
    for piece in pieces_of(data, cuts):
        out += b"".join(characters.feed(piece))
        fed += len(piece)
        assert fed - len(out) <= 3
    assert out + b"".join(characters.finish()) == data


@given(st.integers(0, 5), st.sampled_from(["é", "€", "😀", "a"]))
def test_pieces_are_small(offset: int, letter: str) -> None:
    text = "x" * offset + letter * 20_000
    out = WholeCharacters().feed(text.encode())
    assert all(0 < len(piece) <= PIECE_BYTES for piece in out)
    assert "".join(piece.decode() for piece in out) == text


def kept(data: bytes, half: int) -> Excerpt:
    buffer = HeadTail(half, half)
    for start in range(0, len(data), 7):
        buffer.append(data[start : start + 7])
    return buffer.excerpt()


@given(TEXT, st.integers(0, 400), st.integers(1, 200))
def test_text_is_cut_between_characters_and_counted_exactly(text: str, limit: int, half: int) -> None:
    """What a model is shown is the true beginning and the true end, and how much is missing is no guess."""
    data = text.encode()
    result = cut(kept(data, half), limit)
    if result.omitted_bytes == 0:
        assert result.text == text
        return
    note = f"\n[… {result.omitted_bytes} bytes omitted …]\n"
    candidates = [
        (result.text[:at], result.text[at + len(note) :])
        for at in range(len(result.text))
        if result.text.startswith(note, at)
    ]
    assert any(
        text.startswith(head)
        and text.endswith(tail)
        and len(head.encode()) + len(tail.encode()) == len(data) - result.omitted_bytes <= limit
        for head, tail in candidates
    )


@given(st.binary(max_size=600), st.integers(0, 600), st.integers(1, 300))
def test_the_bound_holds_for_bytes_that_are_no_text(data: bytes, limit: int, half: int) -> None:
    """A program that prints an image must not fill a model's context three times over."""
    result = cut(kept(data, half), limit)
    note = f"\n[… {result.omitted_bytes} bytes omitted …]\n" if result.omitted_bytes else ""
    assert len(result.text.encode()) - len(note.encode()) <= limit
    assert 0 <= result.omitted_bytes <= len(data)
    if not result.omitted_bytes:
        assert result.text == shown(data)


def test_much_is_shown_of_both_ends() -> None:
    """As much as the limit allows, not a safe little."""
    data = b"a" * 5000 + "é".encode() * 5000
    text, omitted = cut(kept(data, 4000), 1000)
    assert text.startswith("a" * 500 + "\n[… ")
    assert text.endswith("…]\n" + "é" * 250)
    assert omitted == 14_000
    text, omitted = cut(kept(data, 100), 1000)
    assert text.count("a") == 100 and omitted == 15_000 - 100 - 2 * text.count("é")


CANDIDATES = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=80, unique_by=lambda each: each[0]).map(
    lambda items: [Candidate(n, last_used, finished) for n, (last_used, finished) in enumerate(items)]
)


@given(CANDIDATES)
def test_the_right_one_goes(candidates: list[Candidate]) -> None:
    """Lost: the server that a model started an hour ago and just talked to."""
    chosen = victim(candidates)
    recent = sorted(candidates, key=lambda each: each.last_used, reverse=True)
    protected, others = recent[:PROTECTED], recent[PROTECTED:]
    if chosen is None:
        assert not others
        return
    assert chosen not in {each.process_id for each in protected}
    finished = [each for each in others if each.finished]
    assert chosen == min(finished or others, key=lambda each: each.last_used).process_id


def test_commands_that_are_being_started_take_room() -> None:
    """A model that calls a hundred tools at once must not get a hundred processes."""
    table = CommandTable(consecutive_ids=True)
    ids = [table.reserve() for _ in range(MAX_PROCESSES)]
    assert ids == list(range(1000, 1000 + MAX_PROCESSES))
    with pytest.raises(Busy, match="64 commands are being started"):
        table.to_evict()
    table.release(ids[0])
    assert table.to_evict() is None


@given(st.lists(st.tuples(st.sampled_from(["pause", "resume", "pass"]), st.floats(0, 100)), max_size=40))
def test_stopped_time_does_not_count(steps: list[tuple[str, float]]) -> None:
    """The window of a call goes on where it was when the person has answered, however the pauses overlap."""
    now = 0.0
    clock = YieldClock(lambda: now)
    ran = 0.0
    pauses = 0
    for step, seconds in steps:
        if step == "pause":
            clock.pause()
            pauses += 1
        elif step == "resume" and pauses:
            clock.resume()
            pauses -= 1
        elif step == "resume":
            with pytest.raises(RuntimeError, match="without a pause"):
                clock.resume()
        now += seconds
        ran += 0 if pauses else seconds
        assert clock.time() == pytest.approx(ran, abs=1e-6)
        assert clock.runs.is_set() == (pauses == 0)


def test_errors_can_be_sent_to_another_process() -> None:
    snapshot = Snapshot(
        call_id="c",
        chunk_id="1",
        command="x",
        output="no",
        omitted_bytes=0,
        total_bytes=2,
        total_tokens=1,
        exit_code=1,
        process_id=None,
        wall_time_s=0.1,
    )
    for error in (UnknownCommand(7, "exit code 0"), StdinClosed(7), SandboxDenied(snapshot)):
        copy = pickle.loads(pickle.dumps(error))
        assert str(copy) == str(error) and vars(copy) == vars(error)
