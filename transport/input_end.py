"""End of a connection's input: what was asked is still carried out, answered and taken; then the connection closes."""

from __future__ import annotations

import enum
from collections.abc import Callable

from actors.base.deadlines import Deadlines


class Input(enum.Enum):
    """How far the input of a connection is."""

    OPEN = "open"  # more may come
    ENDED = "ended"  # nothing more comes; what has arrived is being taken
    FLUSHED = "flushed"  # all is taken; what waits for a process is answered with what there is
    OVER = "over"  # all is answered; the connection closes when the client has taken that


class InputEnd:
    """From the end of the input on. `flush` ends the requests that wait; `over` is called when all is answered;
    `progress` is a value that changes when the client takes something, and `give_up` is called when it has been the
    same for `grace_s` seconds."""

    def __init__(
        self,
        deadlines: Deadlines,
        grace_s: float,
        flush: Callable[[], object],
        over: Callable[[], object],
        progress: Callable[[], object],
        give_up: Callable[[], object],
    ) -> None:
        self.state = Input.OPEN
        self._deadlines = deadlines
        self._grace_s = grace_s
        self._flush = flush
        self._over = over
        self._progress = progress
        self._give_up = give_up

    def ended(self) -> None:
        """Nothing more is read."""
        if self.state is Input.OPEN:
            self.state = Input.ENDED
            self._watch_progress()

    def all_taken(self) -> None:
        """Nothing that arrived is left to be taken."""
        if self.state is Input.ENDED:
            self.state = Input.FLUSHED
            self._flush()

    def answered(self) -> None:
        """No request is unanswered at this moment.

        Events that come after the last answer are not sent, or an endless child would keep the session.
        """
        if self.state is Input.FLUSHED:
            self.state = Input.OVER
            self._over()

    def _watch_progress(self) -> None:
        before = self._progress()

        def judge() -> None:
            if before == self._progress():
                self._give_up()
            else:
                self._watch_progress()

        self._deadlines.set("progress", self._grace_s, judge)
