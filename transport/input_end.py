"""InputEnd: the part of a BridgeActor for the end of its input, behind which all is still answered and taken."""

from __future__ import annotations

import enum
from collections.abc import Callable

from actors.base.actor import BaseActor, Part, log
from actors.base.messages import Address
from transport.answers import Answers
from transport.interface import InputEnded, Transport

CLOSE_NORMAL = 1000
PROGRESS = "progress"
"""Key of the deadline for a client that is behind."""


class Input(enum.Enum):
    """How far the input of a connection is."""

    OPEN = "open"  # more may come
    ENDED = "ended"  # nothing more comes; what has arrived is being taken
    FLUSHED = "flushed"  # all is taken; what waits for a process is answered with what there is
    OVER = "over"  # all is answered; the connection closes when the client has taken that


class InputEnd(Part):
    """From the end of the input on. `take` has what arrived taken, `flush` ends the requests that wait, `close` closes
    the connection. A client that has taken nothing for `grace_s` seconds is given up.
    """

    def __init__(
        self,
        actor: BaseActor,
        transport: Transport,
        answers: Answers,
        grace_s: float,
        take: Callable[[], object],
        flush: Callable[[], object],
        close: Callable[[int, str], object],
    ) -> None:
        super().__init__(actor)
        self._transport = transport
        self._answers = answers
        self._state = Input.OPEN
        self._grace_s = grace_s
        self._take = take
        self._flush = flush
        self._close = close

    def receiveMsg_InputEnded(self, message: InputEnded, sender: Address) -> None:
        """Carry out what was read, answer the waits with what there is, then close."""
        if message.reason:
            text = "%s: the input is broken: %s"
            log.warning(text, self._transport.peer, message.reason, extra=self.actor.about())
        if self._state is Input.OPEN:
            self._state = Input.ENDED
            self._watch_progress()
        self._take()

    def all_taken(self) -> None:
        """Nothing that arrived is left to be taken."""
        if self._state is Input.ENDED:
            self._state = Input.FLUSHED
            self._flush()
        self.check()

    def check(self) -> None:
        """Close once all is answered and the client is not behind.

        Events that come after the last answer are not sent, or an endless child would keep the session.
        """
        if self._state is Input.FLUSHED and not self._answers.pending:
            self._state = Input.OVER
            self._answers.events_wanted = False
        if self._state is Input.OVER and not self._answers.outbox.congested:
            self._close(CLOSE_NORMAL, "end of input")

    def _watch_progress(self) -> None:
        before = self._answers.outbox.progress

        def judge() -> None:
            if before != self._answers.outbox.progress:
                self._watch_progress()
                return
            self._close(CLOSE_NORMAL, "end of input")
            self._transport.abort("the output was not read in time after the end of the input")

        self.actor.deadlines.set(PROGRESS, self._grace_s, judge)
