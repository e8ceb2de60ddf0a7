"""Messages to a ConnectionActor: from the router, from its bridge, from its processes."""

from __future__ import annotations

import msgspec

from actors.base.address import Address
from actors.base.messages.shared import (
    BridgeAttached,
    BridgeDetached,
    Call,
    Drain,
    FlushWaits,
    Observe,
    PauseOutput,
    ProcessEvent,
    ProcessStarted,
    Reconfigure,
)
from actors.base.settings import Settings
from protocol.errors import ExecServerError


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """Router to a new ConnectionActor, first of all. Its settings are those of this session."""

    session_id: str
    settings: Settings
    process_class: str = "actors.process.actor.ProcessActor"
    audit: Address | None = None
    """The AuditActor, where there is an audit log."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor: the process may start, and is counted; or not, and why."""

    process_id: str
    token: int
    error: ExecServerError | None


class StartAudited(msgspec.Struct, frozen=True, gc=False):
    """AuditActor to ConnectionActor: the log tells of the start of this token; or cannot, and nothing may start."""

    token: int
    process_id: str
    error: ExecServerError | None


class DropRecord(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor: forget this finished process, others need its room."""

    process_id: str


class Describe(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor, for a Dump: which processes has the session? Answered with Described."""

    show_argv: bool


class AttachFailed(msgspec.Struct, frozen=True, gc=False):
    """Router to the observer's ConnectionActor: the id that was taken under this token is free again."""

    alias: str
    token: int


class OutputResumed(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: reading again, and what was there has been sent on."""

    process_id: str


class StartFailed(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: there is no child; free the id, then answer."""

    process_id: str
    token: int
    bridge: Address
    error: ExecServerError


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: the child left no background jobs, or they have ended."""


ToSession = (
    OpenSession
    | Reservation
    | StartAudited
    | DropRecord
    | Describe
    | AttachFailed
    | OutputResumed
    | StartFailed
    | Forgotten
    | Call
    | Drain
    | Reconfigure
    | BridgeAttached
    | BridgeDetached
    | FlushWaits
    | PauseOutput
    | Observe
    | ProcessStarted
    | ProcessEvent
)
