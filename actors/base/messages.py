"""All that the actors of exec-server say to each other: frozen, picklable, one line each.

Messages are passed by reference within a process, so nothing that a message holds may be changed after it is sent.
`session_id` names a session because Thespian's addresses cannot be dictionary keys.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.base.settings import Settings
from protocol.errors import ExecServerError
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessStartParams,
    ProcessStartResult,
)
from protocol.requests import Params
from protocol.session import InitializeParams, InitializeResult
from protocol.wire_types import NotificationParams, WireStruct

Address = Any
"""A thespian.actors.ActorAddress; Thespian has no types of its own to offer."""


class Configure(msgspec.Struct, frozen=True, gc=False):
    """To a new RouterActor, first of all: what holds for the whole server, and the classes of its actors by name."""

    settings: Settings
    connection_class: str = "actors.session.actor.ConnectionActor"
    process_class: str = "actors.process.actor.ProcessActor"


class Configured(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Configure: it takes bridges from now on."""


class Reconfigure(msgspec.Struct, frozen=True, gc=False):
    """Server to router, and on to every ConnectionActor: these settings hold for what begins from now on."""

    settings: Settings


class Drain(msgspec.Struct, frozen=True, gc=False):
    """Server to router, and on to every ConnectionActor: begin nothing new. Answered with AllIdle when nothing runs.

    `end_within` None: what runs may go on; else it is asked to end, and killed after so many seconds.
    """

    end_within: float | None


class Idle(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router, after Drain: every process of this session is over and closed."""

    session_id: str


class AllIdle(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Drain: every process of every session is over and closed."""


class EndGently(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to ProcessActor: the server ends; ask the child to, and kill it after so many seconds."""

    seconds: float


class Initialize(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: open a session, or resume the one that the params name.

    `max_bytes` is the longest member of bytes that an answer to this client may have. `peer` says who is connected.
    """

    token: int
    params: InitializeParams
    max_bytes: int
    peer: str = ""


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


class PeerAlive(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: the peer answered a Probe."""

    session_id: str


class SessionTaken(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: your session went to another connection, or ended; close."""

    reason: str


class BridgeClosed(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: the connection is gone. `session_id` is the session it had or asked for, if any."""

    session_id: str | None
    end_session: bool


class Congested(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: more than the high-water mark is queued for this client."""

    session_id: str


class Relieved(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: the client has taken what was queued, down to the low mark."""

    session_id: str


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """Router to a new ConnectionActor, first of all. Its settings are those of this session."""

    session_id: str
    settings: Settings
    process_class: str = "actors.process.actor.ProcessActor"
    audit: Address | None = None
    """The AuditActor, where there is an audit log."""


class BridgeAttached(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor, and on to its services: this bridge speaks for the session now."""

    bridge: Address
    max_message: int
    """The longest message that its client takes, in bytes."""
    max_bytes: int
    """The longest member of bytes that fits into such a message in the client's encoding."""
    client: tuple[str, str] = ("", "")
    """Who is connected, and what it calls itself; for the audit log."""


class BridgeDetached(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor, and on: the bridge is gone; what it waits for is void.

    `of_owner` is false for the bridge of another session that had asked something of this one.
    """

    bridge: Address
    of_owner: bool = True


class HoldOutput(msgspec.Struct, frozen=True, gc=False):
    """Make nothing more for this client: router to ConnectionActor, and on to each ProcessActor and service.

    A ProcessActor stops reading the child's output, a service begins nothing new.
    """


class ReleaseOutput(msgspec.Struct, frozen=True, gc=False):
    """Go on after HoldOutput. A ProcessActor answers OutputReleased."""


class OutputReleased(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: reading again, and what was there has been sent on."""

    process_id: str


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request of a client: bridge to ConnectionActor, and on to the ProcessActor that it names.

    Answered to `bridge` with this token, exactly once.
    """

    token: int
    bridge: Address
    params: Params


class OpenService(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to a new service, first of all. A service carries out the requests of a family, such as files.

    It gets Call, BridgeAttached, BridgeDetached, FlushWaits, HoldOutput and ReleaseOutput as they come, and answers the
    bridge that asked.
    """

    settings: Settings
    attached: BridgeAttached | None
    held: bool
    session_id: str = ""
    router: Address = None


class ServiceLost(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to its bridge: the service of this family is gone; its requests up to this token are void."""

    family: str
    newest: int


class CallElsewhere(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router: a request about the session that it names, not the bridge's own."""

    session_id: str
    target_id: str
    call: Call


class Attach(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its client wants to watch a process of another session, under a free id."""

    observer_id: str
    call: Call
    alias: str


class AttachFailed(msgspec.Struct, frozen=True, gc=False):
    """Router to the observer's ConnectionActor: the id that was taken under this token is free again."""

    alias: str
    token: int


class Detach(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its client watches this process no longer; answer the call."""

    observer_id: str
    call: Call
    alias: str


class Observe(msgspec.Struct, frozen=True, gc=False):
    """Router to the observed session's ConnectionActor, and on to the ProcessActor: what happened so far?

    Answered to the router with a Replay, in the order of the process's events.
    """

    observer_id: str
    bridge: Address
    token: int
    process_id: str
    alias: str
    after_seq: int
    after_offset: int | None = None


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


class ReadObserved(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: a request about a process that its client watches, under that process's own id."""

    observer_id: str
    alias: str
    call: Call


class FlushWaits(msgspec.Struct, frozen=True, gc=False):
    """The bridge will hear no more input: answer what waits for it, with what there is.

    Bridge to its ConnectionActor, on to the processes, and by the router to the other sessions that it has asked.
    """

    bridge: Address
    session_id: str


class StartProcess(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to a new ProcessActor, first of all. `cwd` is a native path; `held`: no output until released."""

    session_id: str
    token: int
    bridge: Address
    router: Address
    params: ProcessStartParams
    cwd: str
    settings: Settings
    held: bool


class ReserveProcess(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router, before it makes a ProcessActor: is there room for one more? Answered with
    Reservation."""

    session_id: str
    process_id: str
    tty: bool = False


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor: the process may start, and is counted; or not, and why."""

    process_id: str
    error: ExecServerError | None


class CancelReservation(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: a process that was allowed to start did not."""

    session_id: str
    process_id: str


class RetainedBytes(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router, now and then while its child prints: how many bytes it keeps of the output, and how many
    went since it last told."""

    session_id: str
    process_id: str
    size: int
    evicted: int = 0


class RecordsDropped(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: these processes were kept for long enough, and are forgotten."""

    session_id: str
    process_ids: list[str]


class DropRecord(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor: forget this finished process, others need its room."""

    process_id: str


class MayHold(msgspec.Struct, frozen=True, gc=False):
    """FilesActor to router, before it opens a file: is there room for one more handle? Answered with HoldJudged."""

    session_id: str
    number: int


class HoldJudged(msgspec.Struct, frozen=True, gc=False):
    """Router to FilesActor: the handle may be opened, and is counted; or not, and why."""

    number: int
    error: ExecServerError | None


class HandleClosed(msgspec.Struct, frozen=True, gc=False):
    """FilesActor to router: a handle that was counted is closed, or was never opened."""

    session_id: str


class HandlesLost(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: the FilesActor of this session is gone, and its handles with it."""

    session_id: str


class NearLimit(msgspec.Struct, frozen=True, gc=False):
    """To the router: most of a limit of one session or connection is in use; for the log."""

    limit: str
    used: int
    maximum: int


class TrafficReport(msgspec.Struct, frozen=True, gc=False):
    """Bridge to router, now and then: what it has carried since it last told."""

    received_bytes: int
    sent_bytes: int
    requests: Any
    """Method -> actors.base.counters.Histogram."""


class Dump(msgspec.Struct, frozen=True, gc=False):
    """Server to router: what sessions and processes are there? Answered with Dumped."""

    show_argv: bool


class Dumped(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Dump: a list of JSON objects."""

    sessions: Any


class Describe(msgspec.Struct, frozen=True, gc=False):
    """Router to ConnectionActor, for a Dump: which processes has the session? Answered with Described."""

    show_argv: bool


class Described(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to router: its processes, as a list of JSON objects."""

    session_id: str
    processes: Any


class Measure(msgspec.Struct, frozen=True, gc=False):
    """Server to router: what is there, and what has been counted? Answered with Measured."""


class Measured(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Measure."""

    figures: Any
    """actors.base.counters.Counters."""


class ProcessStarted(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router: the answer to process/start, ahead of every event of the process."""

    session_id: str
    bridge: Address
    token: int
    result: ProcessStartResult


class ProcessRuns(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor, for the list: the child's pid, and when it started (ms since 1970)."""

    process_id: str
    pid: int
    started_at_ms: int


class ProcessExits(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor, for the list: how the child ended."""

    process_id: str
    exit_code: int
    signal: str | None
    reason: str = "exited"


class ProcessEvent(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router: the next event of a process, in rising seq without a hole."""

    session_id: str
    notification: ProcessOutput | ProcessExited | ProcessClosed
    retained: int = 0
    """With ProcessClosed: how many bytes are kept of the output."""
    evicted: int = 0
    """With ProcessClosed: how many bytes of it had to go since that was last told."""


class StartFailed(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: there is no child; free the id, then answer."""

    process_id: str
    token: int
    bridge: Address
    error: ExecServerError


class ProcessEnded(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: `closed` has been sent; nothing but retained bytes is left."""

    process_id: str


class Forget(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to ProcessActor: the id is free again; answer Forgotten once nothing of the child is left."""


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to ConnectionActor: the child left no background jobs, or they have ended."""


class ProcessLost(msgspec.Struct, frozen=True, gc=False):
    """The actor of this process is gone; what it had to answer is void. ConnectionActor to router, and on to bridges.

    To a bridge: `session_id` None is its own session, `process_id` None all processes of the session. Requests of
    its own with a token above `newest` came too late to be lost: they are about a new process of that id.
    """

    session_id: str | None
    process_id: str | None
    newest: int | None = None


class SessionLost(msgspec.Struct, frozen=True, gc=False):
    """Router to bridge: the actor of this session is gone."""


class Shutdown(msgspec.Struct, frozen=True, gc=False):
    """To the router: tell every client goodbye and end every session. Answered with ShutdownDone."""


class ShutdownDone(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Shutdown: every session has been told to end."""


class OpenAudit(msgspec.Struct, frozen=True, gc=False):
    """Router to AuditActor, first of all and when settings change: the file, and whether argv is shown."""

    path: str
    show_argv: bool


class Audited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """ConnectionActor to AuditActor: a line of the log. `session` is no power over the session."""

    at_ms: int
    event: Literal["started", "failed", "ended"]
    session: str
    process: str
    peer: str = ""
    client: str = ""
    argv: list[str] | None = None
    argv_sha256: str | None = None
    cwd: str | None = None
    tty: bool | None = None
    mode: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None
    code: int | None = None
    kind: str | None = None
