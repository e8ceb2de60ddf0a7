"""EnvironmentActor: what a session's client asks about the machine that has to be looked up on the disk."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from actors.base.actor import BaseActor
from actors.base.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    Failure,
    FlushWaits,
    OpenService,
    PauseOutput,
)
from actors.system.child.environment import server_environment
from actors.system.pool import FILE_POOL
from protocol.environment import CapabilitiesDiscoverV2Params, EnvironmentConfigReadParams
from protocol.errors import ExecServerError, InternalError
from protocol.wire_types import WireStruct


class LookedUp(msgspec.Struct, frozen=True, gc=False):
    """From a thread to the actor: what became of this call."""

    call: Call
    outcome: WireStruct | ExecServerError


class EnvironmentActor(BaseActor):
    """Answers one request after another."""

    opens_with = OpenService

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Call] = deque()
        self._running = False

    def receiveMsg_Call(self, call: Call, connection: Address) -> None:
        self._waiting.append(call)
        self._go_on()

    def receiveMsg_OpenService(self, message: OpenService, connection: Address) -> None:
        """The answers depend on the machine alone."""

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, connection: Address) -> None:
        """They are small."""

    def receiveMsg_PauseOutput(self, message: PauseOutput, connection: Address) -> None:
        """They are few: one at a time is looked up."""

    def receiveMsg_FlushWaits(self, message: FlushWaits, connection: Address) -> None:
        """They come soon enough."""

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, connection: Address) -> None:
        self._waiting = deque(call for call in self._waiting if call.bridge != message.bridge)

    def _go_on(self) -> None:
        if self._waiting and not self._running:
            self._running = True
            call = self._waiting.popleft()
            FILE_POOL.submit(lambda: self._look_up(call))

    def _look_up(self, call: Call) -> None:
        """In a thread."""
        try:
            outcome = _outcome(call.params)
        except ExecServerError as error:
            outcome = error
        except Exception as error:
            outcome = InternalError(f"{call.params.METHOD} failed inside the server: {error!r}")
        self.send(self.myAddress, LookedUp(call, outcome))

    def receiveMsg_LookedUp(self, message: LookedUp, sender: Address) -> None:
        self._running = False
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


def _outcome(params: WireStruct) -> WireStruct | ExecServerError:
    if isinstance(params, EnvironmentConfigReadParams):
        from actors.services.executor_config import read_config  # the TOML libraries are imported in the thread

        return read_config(params, server_environment())
    if isinstance(params, CapabilitiesDiscoverV2Params):
        from actors.services.capabilities import discover

        return discover(params, server_environment())
    raise AssertionError(params)
