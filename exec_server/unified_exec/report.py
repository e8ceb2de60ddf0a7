"""What callers of unified exec get: snapshots, events, errors.

UnifiedExecError
├── UnknownCommand    no command has this id (any more)
├── StdinClosed       input for a command without a terminal
└── SandboxDenied     a command that its sandbox seems to have kept from its work
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from protocol.process import Stream

Command = str | Sequence[str]
"""A line for the shell, or a program and its arguments."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """What a call brings: output that no other call has brought, and how far the command is."""

    call_id: str
    chunk_id: str
    """Of this snapshot alone."""
    command: Command
    output: str
    """Both streams in the order in which they came. Where something is left out, a note says how much."""
    omitted_bytes: int
    """Bytes of output that are not in `output`, of `total_bytes`."""
    total_bytes: int
    """Bytes of output since the last snapshot, before cutting."""
    total_tokens: int
    """The same in tokens of a model, estimated."""
    exit_code: int | None
    """None while the command goes on, and if it is not known; 128+n for a death by signal n, as shells have it."""
    process_id: int | None
    """What to call `write_stdin` with; None if the command has ended."""
    wall_time_s: float
    """How long the call took, in seconds."""
    failure: str | None = None
    """Why a command has ended that did not end by itself, or of which nothing more can be heard."""
    notice: str | None = None
    """What else the caller ought to know."""


class Begin(Struct, frozen=True):
    """A command is about to be started."""

    call_id: str
    process_id: int
    command: Command
    workdir: str | None
    tty: bool


class OutputDelta(Struct, frozen=True):
    """A piece of output, as it came: at most 8,192 bytes, no character cut."""

    call_id: str
    process_id: int
    stream: Stream
    data: bytes

    @property
    def text(self) -> str:
        """It as text; U+FFFD stands for what is no UTF-8."""
        return self.data.decode("utf-8", "replace")


class TerminalInteraction(Struct, frozen=True):
    """`write_stdin` was called; with no `chars` for a look at the output. `call_id` is that of the command."""

    call_id: str
    process_id: int
    chars: str


class End(Struct, frozen=True):
    """The command has ended, or could not be started, or nothing more can be heard of it; once for each Begin."""

    call_id: str
    process_id: int
    exit_code: int | None
    failure: str | None
    duration_s: float
    total_bytes: int
    """Bytes of output that were told as OutputDelta."""
    transcript: str = ""
    """That output, both streams in the order in which they came: of more than 1 MiB the first and the last half, with a
    note between them of how much is left out.
    """


Event = Begin | OutputDelta | TerminalInteraction | End


class UnifiedExecError(Exception):
    """A call that could not be carried out. Its text is for a model, too."""


class UnknownCommand(UnifiedExecError):
    """No command has this id: there never was one, or it has ended and was shown to its end."""

    def __init__(self, process_id: int, end: str | None = None) -> None:
        text = f"unknown process id {process_id}" if end is None else f"process {process_id} is finished: {end}"
        super().__init__(text)
        self.process_id = process_id
        self.end = end
        """How it ended, if that is still known."""

    def __reduce__(self) -> tuple[type[UnknownCommand], tuple[int, str | None]]:
        return type(self), (self.process_id, self.end)


class StdinClosed(UnifiedExecError):
    """The command has no terminal, and so no input."""

    def __init__(self, process_id: int) -> None:
        super().__init__(f"stdin of process {process_id} is closed: start it with tty=True to write to it")
        self.process_id = process_id

    def __reduce__(self) -> tuple[type[StdinClosed], tuple[int]]:
        return type(self), (self.process_id,)


class SandboxDenied(UnifiedExecError):
    """The command ended at once, and the server says that its sandbox seems to be why."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(f"the sandbox seems to have denied it (exit code {snapshot.exit_code}): {snapshot.output}")
        self.snapshot = snapshot
        """All that is known of it, its output among that."""

    def __reduce__(self) -> tuple[type[SandboxDenied], tuple[Snapshot]]:
        return type(self), (self.snapshot,)
