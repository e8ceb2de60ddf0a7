"""Messages that more than one actor takes, most of them because it passes them on."""

from __future__ import annotations

import msgspec

from actors.base.address import Address
from actors.base.settings import Settings
from protocol.process import ProcessClosed, ProcessExited, ProcessOutput, ProcessStartResult
from protocol.requests import Params


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request of a client: bridge to ConnectionActor, and on to the ProcessActor that it names.

    Answered to `bridge` with this token, exactly once.
    """

    token: int
    bridge: Address
    params: Params


class Drain(msgspec.Struct, frozen=True, gc=False):
    """Begin nothing new: server to router, and on to every ConnectionActor and ProcessActor.

    `end_within` None: what runs may go on; else it is asked to end, and killed after so many seconds. The router
    answers with AllIdle when nothing runs.
    """

    end_within: float | None


class Reconfigure(msgspec.Struct, frozen=True, gc=False):
    """Server to router, and on to every ConnectionActor: these settings hold for what begins from now on."""

    settings: Settings


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


class FlushWaits(msgspec.Struct, frozen=True, gc=False):
    """The bridge will hear no more input: answer what waits for it, with what there is.

    Bridge to its ConnectionActor, on to the processes, and by the router to the other sessions that it has asked.
    """

    bridge: Address
    session_id: str


class PauseOutput(msgspec.Struct, frozen=True, gc=False):
    """Make nothing more for this client, or go on: router to ConnectionActor, and on to each ProcessActor and service.

    Paused, a ProcessActor does not read the child's output, and a service begins nothing new. A ProcessActor that goes
    on answers with OutputResumed.
    """

    paused: bool


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


class ProcessStarted(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router and ConnectionActor: the answer to process/start, ahead of every event of the process.

    `pid` is that of the child, `started_at_ms` when it began (ms since 1970).
    """

    session_id: str
    bridge: Address
    token: int
    result: ProcessStartResult
    pid: int
    started_at_ms: int


class ProcessEvent(msgspec.Struct, frozen=True, gc=False):
    """ProcessActor to router: the next event of a process, in rising seq without a hole.

    `exited` and `closed` go to its ConnectionActor as well. After `closed` nothing but retained bytes is left.
    """

    session_id: str
    notification: ProcessOutput | ProcessExited | ProcessClosed
    retained: int = 0
    """With ProcessClosed: how many bytes are kept of the output."""
    evicted: int = 0
    """With ProcessClosed: how many bytes of it had to go since that was last told."""


class ProcessLost(msgspec.Struct, frozen=True, gc=False):
    """The actor of this process is gone; what it had to answer is void. ConnectionActor to router, and on to bridges.

    To a bridge: `session_id` None is its own session, `process_id` None all processes of the session. Requests of
    its own with a token above `newest` came too late to be lost: they are about a new process of that id.
    """

    session_id: str | None
    process_id: str | None
    newest: int | None = None
