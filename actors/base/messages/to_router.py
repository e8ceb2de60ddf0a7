"""Messages to the RouterActor: from the program, from bridges, from sessions, from processes."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.base.messages.shared import (
    Call,
    Drain,
    FlushWaits,
    Observe,
    ProcessEvent,
    ProcessLost,
    ProcessStarted,
    Reconfigure,
)
from actors.base.settings import Settings
from protocol.errors import ExecServerError
from protocol.session import InitializeParams


class Configure(msgspec.Struct, frozen=True, gc=False):
    """To a new RouterActor, first of all: what holds for the whole server, and the classes of its actors by name."""

    settings: Settings
    connection_class: str = "actors.session.actor.ConnectionActor"
    process_class: str = "actors.process.actor.ProcessActor"


class Shutdown(msgspec.Struct, frozen=True, gc=False):
    """To the router: tell every client goodbye and end every session. Answered with ShutdownDone."""


class Dump(msgspec.Struct, frozen=True, gc=False):
    """Server to router: what sessions and processes are there? Answered with Dumped."""

    show_argv: bool


class Measure(msgspec.Struct, frozen=True, gc=False):
    """Server to router: what is there, and what has been counted? Answered with Measured."""


class Initialize(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: open a session, or resume the one that the params name.

    `max_bytes` is the longest member of bytes that an answer to this client may have. `peer` says who is connected.
    """

    token: int
    params: InitializeParams
    max_bytes: int
    peer: str = ""


class PeerAlive(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: the peer answered a Probe."""

    session_id: str


class BridgeClosed(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: the connection is gone. `session_id` is the session it had or asked for, if any."""

    session_id: str | None
    end_session: bool


class Congestion(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: more than the high-water mark is queued for this client, or it has taken all of that again down
    to the low mark."""

    session_id: str
    congested: bool


class CallElsewhere(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: a request about the session that it names, not the bridge's own."""

    session_id: str
    target_id: str
    call: Call


class TrafficReport(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router, now and then: what it has carried since it last told."""

    received_bytes: int
    sent_bytes: int
    requests: Any
    """Method -> actors.base.counters.Histogram."""


class Idle(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router, after Drain: every process of this session is over and closed."""

    session_id: str


class ReserveProcess(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router, before a child is spawned: is there room for one more? Answered with Reservation.

    `token` is that of the request, which tells two processes of one id apart.
    """

    session_id: str
    process_id: str
    token: int
    tty: bool = False


class CancelReservation(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: a process that was allowed to start did not."""

    session_id: str
    process_id: str


class RecordDropped(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: this process was kept for long enough, and is forgotten."""

    session_id: str
    process_id: str


class Described(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its processes, as a list of JSON objects."""

    session_id: str
    processes: Any


class Attach(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its client wants to watch a process of another session, under a free id."""

    observer_id: str
    call: Call
    alias: str


class Detach(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its client watches this process no longer; answer the call."""

    observer_id: str
    call: Call
    alias: str


class ReadObserved(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: a request about a process that its client watches, under that process's own id."""

    observer_id: str
    alias: str
    call: Call


class NearLimit(msgspec.Struct, frozen=True, gc=False):
    """To the router: most of a limit of one session or connection is in use; for the log."""

    limit: str
    used: int
    maximum: int


class RetainedBytes(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router, now and then while its child prints: how many bytes it keeps of the output, and how many
    went since it last told."""

    session_id: str
    process_id: str
    size: int
    evicted: int = 0


class Replay(msgspec.Struct, frozen=True, gc=False):
    """To the router: what an observer missed; `events` None where there is no such process, or an error. Live events
    follow.
    """

    session_id: str
    process_id: str
    observe: Observe
    events: list[Any] | None
    next_seq: int
    error: ExecServerError | None = None


ToRouter = (
    Configure
    | Shutdown
    | Dump
    | Measure
    | Initialize
    | PeerAlive
    | BridgeClosed
    | Congestion
    | CallElsewhere
    | TrafficReport
    | Idle
    | ReserveProcess
    | CancelReservation
    | RecordDropped
    | Described
    | Attach
    | Detach
    | ReadObserved
    | NearLimit
    | RetainedBytes
    | Replay
    | Drain
    | Reconfigure
    | FlushWaits
    | ProcessStarted
    | ProcessEvent
    | ProcessLost
)
