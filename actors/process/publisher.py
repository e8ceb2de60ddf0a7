"""Publisher: what happens to a process, told to everybody who listens or waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.base.messages import Address, Answer, ProcessEvent, RetainedBytes
from actors.process.long_polls import LongPolls
from actors.process.run import Run
from protocol.process import ProcessClosed, ProcessExited, ProcessOutput

RETAINED_STEP: Final = 256 * 1024
"""After how many more bytes of output the router is told what is kept of it, until the history is full."""
EVICTED_STEP: Final = 16 << 20
"""After how many more it is told what had to go, then."""


class Publisher:
    """One ordered stream of events to the router, and on to whoever waits for one. `exited` and `closed` go to the
    session as well, which keeps the list of processes."""

    __slots__ = ("_evicted_told", "_polls", "_run", "_send", "_tell_retained_at")

    def __init__(self, run: Run, polls: LongPolls, send: Callable[[Address, Any], None]) -> None:
        self._run = run
        self._polls = polls
        self._send = send
        self._tell_retained_at = RETAINED_STEP
        self._evicted_told = 0

    def started(self) -> None:
        """The child runs; what is kept of its start is told where it is much."""
        if self._run.kept_bytes >= RETAINED_STEP:
            self._tell_retained()

    def tell(self, event: ProcessOutput | ProcessExited | ProcessClosed) -> None:
        """The next event."""
        start, session = self._run.start, self._run.session
        if type(event) is ProcessOutput:
            self._send(start.router, ProcessEvent(start.session_id, event))
            if self._run.history.total_charged >= self._tell_retained_at:
                self._tell_retained()
        else:
            closed = type(event) is ProcessClosed
            kept = (self._run.kept_bytes, self._evicted_since()) if closed else (0, 0)
            message = ProcessEvent(start.session_id, event, *kept)
            self._send(start.router, message)
            if session is not None:
                self._send(session, message)
        if self._polls:
            for poll, answer in self._polls.take_ready(self._run.history.answer):
                self._send(poll.bridge, Answer(poll.token, answer))

    def _tell_retained(self) -> None:
        """Tell what the history holds. Once it is full that changes little, until the end."""
        history, capacity, start = self._run.history, self._run.settings.retained_output, self._run.start
        total = history.total_charged
        self._tell_retained_at = total + EVICTED_STEP if total >= capacity else min(total + RETAINED_STEP, capacity)
        retained, evicted = self._run.kept_bytes, self._evicted_since()
        self._send(start.router, RetainedBytes(start.session_id, self._run.process_id, retained, evicted))

    def _evicted_since(self) -> int:
        """Bytes that had to go since this was asked last."""
        before, self._evicted_told = self._evicted_told, self._run.history.evicted_bytes
        return self._evicted_told - before
