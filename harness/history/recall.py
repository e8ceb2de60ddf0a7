"""Recall: what the keys Up and Down bring back into a composer. A state machine; whoever has it fetches.

Records of earlier runs come first, as many as the history had when the thread began; behind them what was submitted in
this run. The index of an entry is its offset in the history, then the count of that and on.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from msgspec import Struct


class RecallEntry(Struct, frozen=True):
    """What a composer holds. Entries of earlier runs have a text, mentions, and the thread they are of."""

    text: str = ""
    elements: tuple[Any, ...] = ()
    local_images: tuple[str, ...] = ()
    remote_images: tuple[str, ...] = ()
    mentions: tuple[Any, ...] = ()
    pastes: tuple[tuple[str, str], ...] = ()
    """Of each paste that is not in the text yet its placeholder and its content."""
    session_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to submit."""
        return not (
            self.text or self.elements or self.local_images or self.remote_images or self.mentions or self.pastes
        )


class Show(Struct, frozen=True):
    """Put this into the composer."""

    entry: RecallEntry


class Fetch(Struct, frozen=True):
    """Look this offset up in the history, and call `fetched`. The composer stays as it is."""

    offset: int


class Stay(Struct, frozen=True):
    """Nothing is to be done."""


Answer = Show | Fetch | Stay


class Direction(IntEnum):
    """Of travel, as what is added to an index."""

    OLDER = -1
    NEWER = 1


class _Browsing(Struct):
    """`wanted` is the index that was asked for; `shown` that of the entry in the composer, None for the draft."""

    draft: RecallEntry
    wanted: int
    direction: Direction
    shown: int | None = None


class Recall:
    """Up and Down of one thread. `only_session`: records of other threads are passed over. Without a history, its
    `log_id` and `count`, there is what was recorded in this run.
    """

    def __init__(self, log_id: int = 0, count: int = 0, *, only_session: str | None = None) -> None:
        self._only_session = only_session
        self.set_metadata(log_id, count)

    def set_metadata(self, log_id: int, count: int) -> None:
        """Begin with another history: everything else is forgotten."""
        self._log_id = log_id
        self._count = count
        self._fetched: dict[int, RecallEntry] = {}
        self._recorded: list[RecallEntry] = []
        self._recalled: str | None = None
        self._browsing: _Browsing | None = None

    def record(self, entry: RecallEntry) -> None:
        """What was submitted. Browsing is over."""
        self.reset()
        if not entry.is_empty and (not self._recorded or self._recorded[-1] != entry):
            self._recorded.append(entry)

    def reset(self) -> None:
        """End browsing: the next `up` shows the newest."""
        self._browsing = None
        self._recalled = None

    def wants(self, text: str, cursor: int) -> bool:
        """Whether Up and Down are ours, with this text in the composer and the cursor before character `cursor`; else
        they move in the text.
        """
        if self._count + len(self._recorded) == 0:
            return False
        return not text or (text == self._recalled and cursor in (0, len(text)))

    def up(self, draft: RecallEntry | str = "") -> Answer:
        """One entry older. `draft` is what is in the composer; with the first press it is kept for `down`."""
        if self._browsing is None:
            newest = self._count + len(self._recorded)
            kept = RecallEntry(draft) if isinstance(draft, str) else draft
            self._browsing = _Browsing(kept, newest, Direction.OLDER)
        return self._travel(self._browsing, Direction.OLDER)

    def down(self) -> Answer:
        """One entry newer; beyond the newest the draft again, and browsing is over."""
        if self._browsing is None:
            return Stay()
        return self._travel(self._browsing, Direction.NEWER)

    def fetched(self, log_id: int, offset: int, entry: RecallEntry | None) -> Answer:
        """What `Fetch` asked for; None if it is not there, malformed, or could not be had."""
        if log_id != self._log_id or not 0 <= offset < self._count:
            return Stay()
        if entry is not None:
            self._fetched[offset] = entry
        browsing = self._browsing
        if browsing is None or browsing.wanted != offset or browsing.shown == offset:
            return Stay()
        if entry is None:
            return self._travel(browsing, browsing.direction)
        return self._arrive(browsing)

    def _travel(self, browsing: _Browsing, direction: Direction) -> Answer:
        browsing.direction = direction
        browsing.wanted += direction
        if browsing.wanted == browsing.shown:  # back, before what was asked for came
            return Stay()
        return self._arrive(browsing)

    def _arrive(self, browsing: _Browsing) -> Answer:
        """Go on in the direction of travel to an entry that is worth showing, or has to be fetched first."""
        end = self._count + len(self._recorded)
        while 0 <= browsing.wanted < end:
            entry = self._entry(browsing.wanted)
            if entry is None:
                return Fetch(browsing.wanted)
            if self._is_worth(entry, browsing):
                browsing.shown = browsing.wanted
                self._recalled = entry.text
                return Show(entry)
            browsing.wanted += browsing.direction
        if browsing.wanted >= end:
            self.reset()
            return Show(browsing.draft)
        return self._turn_back(browsing)

    def _turn_back(self, browsing: _Browsing) -> Stay:
        """There is nothing older: what is shown stays."""
        if browsing.shown is None:
            self._browsing = None
        else:
            browsing.wanted = browsing.shown
        return Stay()

    def _entry(self, index: int) -> RecallEntry | None:
        return self._fetched.get(index) if index < self._count else self._recorded[index - self._count]

    def _is_worth(self, entry: RecallEntry, browsing: _Browsing) -> bool:
        """Whether an entry of an earlier run, or of this one, is another than the one shown, and of a thread that is
        wanted.
        """
        if browsing.wanted < self._count and self._only_session not in (None, entry.session_id):
            return False
        shown = browsing.draft if browsing.shown is None else self._entry(browsing.shown)
        return shown is None or entry.text != shown.text or (not entry.text and entry != shown)
