"""Messages to a BridgeActor from other actors; its transport has its own (transport.interface)."""

from __future__ import annotations

import msgspec

from actors.base.address import Address
from actors.base.messages.shared import ProcessLost
from protocol.errors import ExecServerError
from protocol.session import InitializeResult
from protocol.wire_types import NotificationParams, WireStruct


class Attached(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: the answer to Initialize; from here on this bridge hears the session's events."""

    token: int
    result: InitializeResult
    session: Address


class Answer(msgspec.Struct, frozen=True, gc=False):
    """To a bridge: the result of the request it gave this token."""

    token: int
    result: WireStruct


class Failure(msgspec.Struct, frozen=True, gc=False):
    """To a bridge: the error of the request it gave this token."""

    token: int
    error: ExecServerError


class Notify(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: one notification for the client, in the order of its process."""

    notification: NotificationParams


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Router to a bridge whose session somebody wants to resume: is your peer alive?"""


class SessionTaken(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: your session went to another connection, or ended; close."""

    reason: str


class ServiceLost(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to its bridge: the service of this family is gone; its requests up to this token are void."""

    family: str
    newest: int


class SessionLost(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: the actor of this session is gone."""


ToBridge = Attached | Answer | Failure | Notify | Probe | SessionTaken | ServiceLost | SessionLost | ProcessLost
