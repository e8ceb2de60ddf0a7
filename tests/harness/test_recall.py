"""Recall: Up and Down in a composer (section 2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.history.recall import Fetch, Recall, RecallEntry, Show, Stay

LATEST = RecallEntry("latest")


def entry(text: str, session_id: str | None = None) -> RecallEntry:
    return RecallEntry(text, session_id=session_id)


def test_the_history_is_fetched_when_it_is_asked_for() -> None:
    """Section 2. Lost: the prompts of earlier runs."""
    recall = Recall(1, 3)
    assert recall.up("") == Fetch(2)
    assert recall.fetched(1, 2, LATEST) == Show(LATEST)
    assert recall.up() == Fetch(1)
    assert recall.fetched(1, 1, None) == Fetch(0)
    assert recall.fetched(9, 0, entry("of another log")) == Stay()
    assert recall.fetched(1, 0, entry("oldest")) == Show(entry("oldest"))
    assert recall.up() == Stay()
    assert recall.down() == Fetch(1)  # it may be there by now
    assert recall.fetched(1, 1, None) == Show(LATEST)


def test_doubles_and_empty_ones_are_not_recorded() -> None:
    recall = Recall()
    for text in ("hello", "hello", "", "world"):
        recall.record(entry(text))
    assert recall.up() == Show(entry("world"))
    assert recall.up() == Show(entry("hello"))
    assert recall.up() == Stay()


def test_an_entry_is_more_than_its_text() -> None:
    picture = RecallEntry("", local_images=("/a.png",), pastes=(("[1]", "long"),))
    recall = Recall()
    recall.record(picture)
    assert recall.up() == Show(picture)


def test_reset_begins_at_the_newest() -> None:
    recall = Recall(1, 3)
    recall.up()
    recall.fetched(1, 2, entry("2"))
    recall.up()
    recall.fetched(1, 1, entry("1"))
    recall.reset()
    assert recall.up() == Show(entry("2"))
    assert recall.up() == Show(entry("1"))
    recall.reset()
    assert recall.up() == Show(entry("2"))


def test_what_came_too_late_is_kept_and_not_shown() -> None:
    """Lost: the composer jumps to what the user has left behind."""
    recall = Recall(1, 3)
    assert recall.up() == Fetch(2)
    assert recall.up() == Fetch(1)
    assert recall.fetched(1, 2, entry("2")) == Stay()
    assert recall.fetched(1, 1, entry("1")) == Show(entry("1"))
    assert recall.fetched(1, 1, entry("1")) == Stay()
    assert recall.down() == Show(entry("2"))


def test_back_before_the_answer_stays_on_what_is_shown() -> None:
    recall = Recall(1, 3)
    recall.up()
    recall.fetched(1, 2, entry("2"))
    assert recall.up() == Fetch(1)
    assert recall.down() == Stay()
    assert recall.fetched(1, 1, entry("1")) == Stay()
    assert recall.down() == Show(entry(""))


def test_keys_that_are_recalls() -> None:
    """Section 2, `wants`. Lost: Up that does not move in a text of several lines."""
    recall = Recall()
    assert not recall.wants("", 0)
    recall.record(entry("abc"))
    assert recall.wants("", 0)
    assert not recall.wants("abc", 0)
    assert recall.up() == Show(entry("abc"))
    assert not recall.wants("abc", 1)
    assert recall.wants("abc", 3)
    assert recall.wants("abc", 0)
    assert not recall.wants("x", 0)


def test_a_draft_comes_back() -> None:
    """Lost: half a prompt, to one key."""
    recall = Recall()
    recall.record(entry("done"))
    draft = RecallEntry("half", local_images=("/a.png",))
    assert recall.up(draft) == Show(entry("done"))
    assert recall.down() == Show(draft)
    assert recall.down() == Stay()
    assert recall.up("half") == Show(entry("done"))
    assert recall.down() == Show(entry("half"))


def test_the_same_text_is_not_shown_twice_in_a_row() -> None:
    recall = Recall(1, 3)
    recall.record(entry("b"))
    assert recall.up() == Show(entry("b"))
    assert recall.up() == Fetch(2)
    assert recall.fetched(1, 2, entry("b")) == Fetch(1)
    assert recall.fetched(1, 1, entry("a")) == Show(entry("a"))
    assert recall.down() == Show(entry("b"))


def test_only_one_thread() -> None:
    recall = Recall(1, 2, only_session="mine")
    recall.record(entry("now"))
    assert recall.up() == Show(entry("now"))
    assert recall.up() == Fetch(1)
    assert recall.fetched(1, 1, entry("theirs", "other")) == Fetch(0)
    assert recall.fetched(1, 0, entry("mine", "mine")) == Show(entry("mine", "mine"))


def test_another_history_forgets_all() -> None:
    recall = Recall(1, 1)
    recall.record(entry("old"))
    recall.set_metadata(2, 0)
    assert not recall.wants("", 0)
    assert recall.up("draft") == Stay()
    assert recall.down() == Stay()


@given(
    st.lists(st.sampled_from(["a", "b", None]), max_size=6),
    st.lists(st.sampled_from(["c", "a"]), max_size=3),
    st.lists(st.sampled_from(["up", "down"]), max_size=20),
)
def test_any_walk(stored: list[str | None], submitted: list[str], keys: list[str]) -> None:
    """All the way down is always the draft; what is shown is an entry, and never the text that was there already."""
    recall = Recall(7, len(stored))
    for text in submitted:
        recall.record(entry(text))
    composer = "draft"
    for key in [*keys, *["down"] * (len(stored) + len(submitted) + 1)]:
        answer = recall.up(composer) if key == "up" else recall.down()
        while isinstance(answer, Fetch):
            text = stored[answer.offset]
            answer = recall.fetched(7, answer.offset, None if text is None else entry(text))
        if isinstance(answer, Show):
            assert answer.entry.text != composer
            assert answer.entry.text in {"draft", *submitted, *stored}
            composer = answer.entry.text
    assert composer == "draft"
