"""FilesActor: the file requests of one session.

Each is carried out in a thread, a few at a time: answers come in any order, and nothing new is begun while the client
does not take what it has been sent.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from actors.filesystem import carry_out
from actors.guarded import GuardedActor
from actors.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    Failure,
    HoldOutput,
    OpenService,
    ReleaseOutput,
)
from actors.pool import FILE_POOL
from protocol.errors import ExecServerError, InternalError

AT_ONCE = 4
"""Requests of a session that are carried out at the same time; the others wait in the order in which they came."""


class Done(msgspec.Struct, frozen=True, gc=False):
    """From a thread to the actor: what became of this call."""

    call: Call
    outcome: msgspec.Struct | ExecServerError


class FilesActor(GuardedActor):
    """Carries out the file requests of one session."""

    def __init__(self) -> None:
        super().__init__()
        self._attached: BridgeAttached | None = None
        self._held = False
        self._waiting: deque[Call] = deque()
        self._running = 0

    def receiveMsg_OpenService(self, message: OpenService, connection: Address) -> None:
        self._attached = message.attached
        self._held = message.held

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, connection: Address) -> None:
        self._attached = message

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, connection: Address) -> None:
        """What has begun is finished; what waits is not begun: nobody would hear the answer."""
        self._waiting = deque(call for call in self._waiting if call.bridge != message.bridge)

    def receiveMsg_Call(self, call: Call, connection: Address) -> None:
        self._waiting.append(call)
        self._go_on()

    def receiveMsg_HoldOutput(self, message: HoldOutput, connection: Address) -> None:
        self._held = True

    def receiveMsg_ReleaseOutput(self, message: ReleaseOutput, connection: Address) -> None:
        self._held = False
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self._held and self._running < AT_ONCE:
            self._running += 1
            call = self._waiting.popleft()
            FILE_POOL.submit(lambda call=call: self._carry_out(call))  # type: ignore[misc]

    def _carry_out(self, call: Call) -> None:
        """In a thread."""
        try:
            room = None if self._attached is None else self._attached.max_bytes
            outcome: msgspec.Struct | ExecServerError = carry_out(call.params, room)
        except ExecServerError as error:
            outcome = error
        except Exception as error:
            outcome = InternalError(f"{call.method} failed inside the server: {error!r}")
        self.send(self.myAddress, Done(call, outcome))

    def receiveMsg_Done(self, message: Done, sender: Address) -> None:
        self._running -= 1
        call, outcome = message.call, message.outcome
        if isinstance(outcome, ExecServerError):
            self.send(call.bridge, Failure(call.token, outcome))
        else:
            self.send(call.bridge, Answer(call.token, outcome))
        self._go_on()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
