"""One run of a program, as the parts of its ProcessActor share it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from actors.base.messages import Address, Answer, Failure, StartProcess
from actors.base.settings import Settings
from actors.process.child_input import ChildInput
from actors.process.child_poller import ChildPoller
from actors.process.history import ProcessHistory
from actors.process.idle_timer import IdleTimer
from actors.process.recording import Recording
from actors.system.child import Child
from protocol.process import ExitReason
from protocol.sandbox import to_enforce

RECORD_BYTES: Final = 8192
"""What a process takes beside its output and its argv, in memory of the server, until it is forgotten."""


class State(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"  # the child is reaped; a stream is still open
    CLOSED = "closed"  # nothing but retained bytes is left
    FAILED = "failed"  # there never was a child


class Run:
    """The child, its descriptors, and what is known of it."""

    def __init__(
        self, start: StartProcess, session: Address, send: Callable[[Address, Answer | Failure], None]
    ) -> None:
        self.start = start
        self.session: Address | None = session
        """The ConnectionActor; None once it is about to end, and is told nothing any more."""
        self.process_id = start.params.process_id
        self.settings: Settings = start.settings
        self.sandboxed = to_enforce(start.params.sandbox) is not None
        self.state = State.STARTING
        self.child: Child | None = None
        """Set from the spawn on, until it has been released."""
        self.poller = ChildPoller()
        self.input = ChildInput(self.poller, start.settings.stdin_queue, send)
        self.history = ProcessHistory(
            self.process_id, start.settings.retained_output, start.settings.retain_head, self.sandboxed
        )
        self.recording: Recording | None = None
        self.size = (24, 80)
        """Rows and columns of the terminal."""
        self.idle: IdleTimer | None = None
        """Set where its client has limited its silence."""
        self.reason: ExitReason | None = None
        """Why it is being ended, if it is; the first reason holds."""

    def started(self, child: Child) -> None:
        """The child runs; how it was asked for is of no use any more."""
        self.child = child
        self.state = State.RUNNING
        self.start = msgspec.structs.replace(self.start, params=self.start.params.kept)

    @property
    def kept_bytes(self) -> int:
        """What the server keeps of this run: its output, its argv and itself."""
        return self.history.retained_bytes + self.start.params.kept_bytes + RECORD_BYTES

    def forget(self) -> None:
        """Keep nothing of what it printed."""
        self.history = ProcessHistory(self.process_id, 0, 0)

    def close_recording(self) -> None:
        """End the recording, if there is one."""
        recording, self.recording = self.recording, None
        if recording is not None:
            recording.close()
