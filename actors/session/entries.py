"""Entries of a session's list of processes, and their states."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import msgspec

from actors.base.messages import Address, Call, ProcessStarted
from protocol.paths import path_uri
from protocol.process import ProcessEntry, ProcessExited, ProcessStartParams


class State(enum.Enum):
    RESERVING = "reserving"  # the router has been asked for room
    AUDITING = "auditing"  # there is room, and the audit log has been asked to tell of it
    STARTING = "starting"  # there is room, and the child is being spawned
    RUNNING = "running"
    EXITED = "exited"  # somebody holds its streams open
    CLOSED = "closed"  # nothing more will be told of it


@dataclass(slots=True)
class Entry:
    """What a session knows of one process."""

    call: Call
    """The request that starts it."""
    params: ProcessStartParams
    cwd: str
    """Native."""
    by: tuple[str, str]
    """Peer and name of the client that asked for it."""
    actor: Address
    state: State = State.RESERVING
    pid: int | None = None
    started_at_ms: int = 0
    exit_code: int | None = None
    signal: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it is one of the running processes that are limited in number."""
        return self.state in (State.RESERVING, State.AUDITING, State.STARTING, State.RUNNING)

    def started(self, message: ProcessStarted) -> None:
        """The child runs."""
        self.state = State.RUNNING
        self.params = self.params.kept
        self.call = msgspec.structs.replace(self.call, params=self.params)
        self.pid, self.started_at_ms = message.pid, message.started_at_ms

    def exited(self, event: ProcessExited) -> None:
        """The child has exited."""
        self.state = State.EXITED
        self.exit_code, self.signal = event.exit_code, event.signal

    def shown(self) -> ProcessEntry:
        """The process as process/list shows it."""
        return ProcessEntry(
            process_id=self.params.process_id,
            argv=self.params.argv,
            cwd=path_uri(self.cwd),
            tty=self.params.tty,
            pid=self.pid,
            started_at_ms=self.started_at_ms,
            running=self.counts,
            exit_code=self.exit_code,
            signal=self.signal,
        )

    def dumped(self, show_argv: bool) -> dict[str, Any]:
        """The process as a dump of the server shows it: a JSON object."""
        params = self.params
        return {
            "process": params.process_id,
            "state": self.state.value,
            "pid": self.pid,
            "tty": params.tty,
            "startedAtMs": self.started_at_ms,
            "exitCode": self.exit_code,
            "signal": self.signal,
            **({"argv": params.argv} if show_argv else {}),
        }
