"""`process/*`: params, results and notifications (docs/protocol.md, "Processes").

Where a struct allows null, that and an absent member mean the same; plain booleans must not be null.
Bytes are base64 in JSON and raw in MessagePack.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from protocol.requests import Owner, Params, ProcessRequest
from protocol.sandbox import Sandbox
from protocol.wire_types import (
    U64_MAX,
    Empty,
    Limit,
    Millis,
    Name,
    NotificationParams,
    PathText,
    U64OrDefault,
    WindowSide,
    WireStruct,
    check_u64,
    default_null,
)

Stream = Literal["stdout", "stderr", "pty"]
ExitReason = Literal["exited", "signaled", "terminated", "timeout", "idleTimeout", "sessionEnded", "hostLost"]
WriteStatus = Literal["accepted", "unknownProcess", "stdinClosed", "starting"]


Glob = Annotated[str, msgspec.Meta(max_length=256)]
Globs = Annotated[list[Glob], msgspec.Meta(max_length=256)]
Arguments = Annotated[list[str], msgspec.Meta(max_length=65_536)]
STRING_BYTES = 64
"""What a str takes in memory beside its characters, with its place in a list."""
Variables = Annotated[dict[str, str], msgspec.Meta(max_length=16_384)]


class EnvPolicy(WireStruct, frozen=True):
    """How the child's environment is made of the server's before `env` is laid over it (docs/protocol.md,
    "process/start").
    """

    inherit: Literal["all", "core", "none"]
    ignore_default_excludes: bool
    exclude: Globs
    set: Variables
    include_only: Globs


class ManagedNetwork(WireStruct, frozen=True):
    """Network rules of a managed sandbox."""

    loopback_ports: list[int] = msgspec.field(default_factory=list)
    allow_local_binding: bool = False


class NetworkProxy(WireStruct, frozen=True):
    """A proxy for a managed sandbox. There is none here, and nothing is made of what is said of it."""

    proxy: msgspec.Raw


class SnapshotShell(WireStruct, frozen=True):
    """The shell of a shell snapshot."""

    name: Name
    path: PathText


class ShellSnapshot(WireStruct, frozen=True):
    """A wish for a shell snapshot; accepted, without effect."""

    scope_id: Name
    shell: SnapshotShell


class StartMetadata(WireStruct, frozen=True):
    """Telemetry of the client."""

    thread_id: UUID | None = None
    tool_call_id: Name | None = None


class ResourceLimits(WireStruct, frozen=True):
    """What a command may use, in force before its program runs; None is without a limit of its own.

    CPU time (seconds), open files and file sizes (bytes) hold for each process, memory (bytes) and the number of
    processes for the command as a whole.
    """

    cpu_seconds: Limit | None = None
    memory_bytes: Limit | None = None
    open_files: Limit | None = None
    file_size_bytes: Limit | None = None
    processes: Limit | None = None


class ProcessStartResult(WireStruct, frozen=True):
    """The child runs."""

    process_id: str
    sandbox_type: str = "none"


class ProcessStartParams(ProcessRequest, frozen=True):
    """`cwd` is a `file:` URI, or a native absolute path (protocol.paths). `env` is the exact environment
    unless there is an `env_policy`. The program looked up is `argv[0]`, whatever `arg0` says. Times are in
    milliseconds."""

    METHOD = "process/start"
    RESULT = ProcessStartResult
    OWNER = Owner.SESSION

    argv: Arguments
    cwd: PathText
    env: Variables
    tty: bool
    pipe_stdin: bool = False
    arg0: str | None = None
    env_policy: EnvPolicy | None = None
    sandbox: Sandbox | None = None
    enforce_managed_network: bool = False
    managed_network: ManagedNetwork | None = None
    network_proxy: NetworkProxy | None = None
    shell_snapshot: ShellSnapshot | None = None
    metadata: StartMetadata | None = None
    rows: WindowSide = 24
    cols: WindowSide = 80
    timeout_ms: Millis | None = None
    idle_timeout_ms: Millis | None = None
    closed_after_exit_ms: Millis | None = None
    on_disconnect: Literal["keep", "terminate"] | None = None
    """None is `keep`."""
    mode: Literal["direct", "prepared"] | None = None
    """None is `direct`; `prepared`: the caller has applied its own policy and sandbox already."""
    limits: ResourceLimits | None = None
    record: bool | None = None
    """Record the terminal, or do not, whatever the server does otherwise."""
    echo: bool = True
    """Whether the terminal shows what is typed (ECHO)."""
    raw: bool = False
    """The terminal passes every byte on as it is, without lines, echo and signals (cfmakeraw(3))."""
    host: Name | None = None
    requirements: dict[str, Any] | None = None

    @property
    def kept(self) -> Self:
        """What is of use once the child runs: without its environment, its sandbox, and members that have no effect."""
        return msgspec.structs.replace(
            self,
            env={},
            env_policy=None,
            arg0=None,
            sandbox=None,
            managed_network=None,
            network_proxy=None,
            shell_snapshot=None,
            metadata=None,
            requirements=None,
        )

    @property
    def kept_bytes(self) -> int:
        """About what `kept` takes in memory."""
        return sum(map(len, self.argv)) + STRING_BYTES * len(self.argv) + len(self.cwd) + len(self.process_id)

    def __post_init__(self) -> None:
        if not self.argv:
            raise ValueError("argv must not be empty")
        default_null(self, "rows", 24)
        default_null(self, "cols", 80)
        default_null(self, "echo", True)
        default_null(self, "raw", False)


class OutputChunk(WireStruct, frozen=True, kw_only=True):
    """A piece of output as the log keeps it and a read result shows it. Members in the order of the wire."""

    BULK = ("chunk",)

    seq: int
    stream: Stream
    offset: int
    """Bytes of output of this process before this chunk, both streams together."""
    chunk: bytes


class ProcessReadResult(WireStruct, frozen=True):
    """Retained output, and how the process stands."""

    BULK = ("chunks",)

    chunks: list[OutputChunk]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    failure: str | None = None
    sandbox_denied: bool = False
    signal: str | None = None
    reason: ExitReason | None = None
    first_retained_seq: int | None = None
    first_retained_offset: int | None = None
    evicted_bytes: int = 0

    @property
    def bulk_bytes(self) -> int:
        """Bytes of output in all chunks together."""
        if not self.chunks:
            return 0
        last = self.chunks[-1]
        return last.offset + len(last.chunk) - self.chunks[0].offset

    def bytes_beside_bulk(self, element_bytes: int) -> int:
        return 512 + len(self.chunks) * element_bytes

    def cut_to(self, size: int, size_of: Callable[[Self], int]) -> Self:
        """This result with only as many chunks as make `size_of` it at most `size` bytes, but at least one."""
        least, most = 1, len(self.chunks)
        while least < most:
            middle = (least + most + 1) // 2
            if size_of(self._with_chunks(middle)) <= size:
                least = middle
            else:
                most = middle - 1
        return self._with_chunks(least)

    def _with_chunks(self, count: int) -> Self:
        if count >= len(self.chunks):
            return self
        return msgspec.structs.replace(self, chunks=self.chunks[:count], next_seq=self.chunks[count - 1].seq + 1)


class ProcessReadParams(ProcessRequest, frozen=True):
    """Retained output after `after_seq` (exclusive); `max_bytes` None is without limit; waits up to
    `wait_ms`.
    """

    METHOD = "process/read"
    RESULT = ProcessReadResult
    REPEATABLE = True
    OBSERVABLE = True

    returns_at_exit: ClassVar[bool] = False
    """Whether the exit of the process ends a wait, although a stream may still be open."""

    after_seq: U64OrDefault = 0
    max_bytes: U64OrDefault | None = None
    wait_ms: U64OrDefault = 0
    session_id: Name | None = None

    @property
    def asks_for_kept_output(self) -> bool:
        return not self.wait_ms

    def __post_init__(self) -> None:
        # Reads are the most frequent requests: the usual case is three comparisons.
        if self.after_seq is None or self.wait_ms is None:
            default_null(self, "after_seq", 0)
            default_null(self, "wait_ms", 0)
        if self.after_seq > U64_MAX or self.wait_ms > U64_MAX or (self.max_bytes or 0) > U64_MAX:
            check_u64("afterSeq", self.after_seq)
            check_u64("maxBytes", self.max_bytes)
            check_u64("waitMs", self.wait_ms)


class SeedReadParams(ProcessReadParams, frozen=True):
    """A read of a client of the first generation (`protocol.dialect`)."""

    returns_at_exit = True


class ProcessWriteResult(WireStruct, frozen=True):
    """`status` for current clients, `accepted` (true only with status `accepted`) for the seed's."""

    status: WriteStatus
    accepted: bool = False
    accepted_bytes: int | UnsetType = UNSET
    """All input of this process that was ever accepted."""

    def __post_init__(self) -> None:
        if self.accepted != (self.status == "accepted"):
            raise ValueError("`accepted` must be true with status `accepted`, and only then")


class ProcessWriteParams(ProcessRequest, frozen=True):
    """Input for the child. `write_id` makes a repetition harmless; seed-era clients send none."""

    METHOD = "process/write"
    RESULT = ProcessWriteResult
    BULK = ("chunk",)

    chunk: bytes
    write_id: Name | None = None
    offset: U64OrDefault | None = None
    """Bytes of input accepted before this chunk; what was accepted already is cut off."""
    session_id: Name | None = None

    @property
    def may_repeat(self) -> bool:
        return self.write_id is not None

    def __post_init__(self) -> None:
        if self.write_id == "":
            raise ValueError("writeId must not be empty")
        check_u64("offset", self.offset)

    def result_without_process(self) -> WireStruct:
        return ProcessWriteResult(status="unknownProcess")


_SIGNALS = {number.name: int(number) for number in signals.Signals} | {"interrupt": int(signals.SIGINT)}


class ProcessSignalParams(ProcessRequest, frozen=True):
    """`interrupt`, or the POSIX name of a signal that this system has (`SIGTERM`)."""

    METHOD = "process/signal"
    RESULT = Empty

    signal: Name
    session_id: Name | None = None

    def __post_init__(self) -> None:
        if self.signal not in _SIGNALS:
            known = ", ".join(_SIGNALS)
            raise ValueError(f"invalid `signal`: unknown variant `{self.signal[:40]}`, expected one of {known}")

    @property
    def number(self) -> int:
        """The signal's number on this system."""
        return _SIGNALS[self.signal]

    def result_without_process(self) -> WireStruct:
        return Empty()


class ProcessTerminateResult(WireStruct, frozen=True):
    """Whether the process had not yet exited."""

    running: bool


class ProcessTerminateParams(ProcessRequest, frozen=True):
    """Ends the process and all its attributed descendants: at once, or `graceful`ly, with `timeout_ms` (None:
    5000) between SIGTERM and SIGKILL.
    """

    METHOD = "process/terminate"
    RESULT = ProcessTerminateResult
    REPEATABLE = True

    mode: Literal["force", "graceful"] | None = None
    timeout_ms: Millis | None = None
    session_id: Name | None = None

    def result_without_process(self) -> WireStruct:
        return ProcessTerminateResult(running=False)


class ProcessCloseStdinParams(ProcessRequest, frozen=True):
    """End of input."""

    METHOD = "process/closeStdin"
    RESULT = ProcessWriteResult
    EXTENSION = "closeStdin"

    session_id: Name | None = None

    def result_without_process(self) -> WireStruct:
        return ProcessWriteResult(status="unknownProcess")


class ProcessResizeParams(ProcessRequest, frozen=True):
    """A new window size for a PTY."""

    METHOD = "process/resize"
    RESULT = Empty
    EXTENSION = "resize"
    REPEATABLE = True

    rows: WindowSide
    cols: WindowSide
    session_id: Name | None = None

    def __post_init__(self) -> None:
        if self.rows is None or self.cols is None:
            raise ValueError("invalid `rows` or `cols`: expected integer, got null")


class ProcessFlowParams(ProcessRequest, frozen=True):
    """The owner holds (true) or releases (false) the child's output."""

    METHOD = "process/flow"
    RESULT = Empty
    EXTENSION = "flow"

    paused: bool


class ProcessWaitResult(WireStruct, frozen=True):
    """How the process stands when the wait is over."""

    exited: bool
    exit_code: int | None
    signal: str | None
    reason: ExitReason | None
    closed: bool


class ProcessWaitParams(ProcessRequest, frozen=True):
    """Answered at exit, or after `wait_ms` (None: as long as a wait may last)."""

    METHOD = "process/wait"
    RESULT = ProcessWaitResult
    EXTENSION = "wait"
    REPEATABLE = True
    OBSERVABLE = True

    wait_ms: U64OrDefault | None = None
    session_id: Name | None = None

    def __post_init__(self) -> None:
        check_u64("waitMs", self.wait_ms)


class ProcessEntry(WireStruct, frozen=True):
    """One process of a list; `cwd` is a `file:` URI, `started_at_ms` milliseconds since 1970 UTC."""

    process_id: str
    argv: list[str]
    cwd: str
    tty: bool
    pid: int | None
    started_at_ms: int
    running: bool
    exit_code: int | None
    signal: str | None
    host: str | None = None


class ProcessListResult(WireStruct, frozen=True):
    """In the order of their starts."""

    processes: list[ProcessEntry]


class ProcessListParams(Params, frozen=True):
    """All processes of a session."""

    METHOD = "process/list"
    RESULT = ProcessListResult
    EXTENSION = "list"
    FAMILY = "exec"
    OWNER = Owner.SESSION
    REPEATABLE = True

    session_id: Name | None = None


class StreamBytes(WireStruct, frozen=True):
    """A number of bytes for each stream."""

    stdout: int = 0
    stderr: int = 0
    terminal: int = 0


class ProcessSnapshotResult(WireStruct, frozen=True):
    """Head then tail of each stream; where `dropped_bytes` > 0 the hole is after `head_bytes`."""

    BULK = ("stdout", "stderr", "terminal")

    stdout: bytes
    stderr: bytes
    terminal: bytes
    truncated: bool
    head_bytes: StreamBytes
    dropped_bytes: StreamBytes
    running: bool
    exit_code: int | None
    signal: str | None


class ProcessSnapshotParams(ProcessRequest, frozen=True):
    """Head and tail of what the process has printed."""

    METHOD = "process/snapshot"
    RESULT = ProcessSnapshotResult
    EXTENSION = "snapshot"
    REPEATABLE = True
    OBSERVABLE = True

    session_id: Name | None = None

    @property
    def asks_for_kept_output(self) -> bool:
        return True


class ScreenCursor(WireStruct, frozen=True):
    """Where the cursor is, from 0."""

    row: int
    col: int
    visible: bool


class ProcessScreenResult(WireStruct, frozen=True):
    """One string a row, without the blanks at its end. `complete` is false where the beginning of the output was
    evicted, so that the screen may not be what a terminal that saw it all would show.
    """

    rows: list[str]
    cols: int
    cursor: ScreenCursor
    title: str
    complete: bool


class ProcessScreenParams(ProcessRequest, frozen=True):
    """What the terminal shows."""

    METHOD = "process/screen"
    RESULT = ProcessScreenResult
    EXTENSION = "screen"
    REPEATABLE = True
    OBSERVABLE = True

    session_id: Name | None = None


class ProcessAttachResult(WireStruct, frozen=True):
    """The seq that follows the last one replayed."""

    next_seq: int


class ProcessAttachParams(ProcessRequest, frozen=True):
    """Watch a process of another session, under the id `as` (None: its own id).

    `after_offset`: how many bytes of output the events up to `after_seq` had; with it a gap is exact.
    """

    METHOD = "process/attach"
    RESULT = ProcessAttachResult
    EXTENSION = "attach"
    OWNER = Owner.ROUTER

    observe_id: Name | None = None
    session_id: Name | None = None
    after_seq: U64OrDefault = 0
    after_offset: U64OrDefault | None = None
    as_: Name | None = msgspec.field(name="as", default=None)

    def __post_init__(self) -> None:
        if self.observe_id is None and self.session_id is None:
            raise ValueError("missing field `observeId`")
        default_null(self, "after_seq", 0)
        check_u64("afterSeq", self.after_seq)
        check_u64("afterOffset", self.after_offset)


class ProcessDetachParams(ProcessRequest, frozen=True):
    """Watch no longer; `process_id` is the id the process was watched under."""

    METHOD = "process/detach"
    RESULT = Empty
    EXTENSION = "attach"
    OWNER = Owner.ROUTER


class ProcessOutput(NotificationParams, frozen=True, kw_only=True):
    """`process/output`: a chunk that has just been read from the child."""

    METHOD = "process/output"
    BULK = ("chunk",)

    process_id: str
    seq: int
    stream: Stream
    offset: int
    chunk: bytes

    @classmethod
    def of(cls, process_id: str, chunk: OutputChunk) -> ProcessOutput:
        """The notification of a chunk of the log; the bytes are shared."""
        return cls(process_id=process_id, seq=chunk.seq, stream=chunk.stream, offset=chunk.offset, chunk=chunk.chunk)


class ProcessExited(NotificationParams, frozen=True):
    """`process/exited`: the child has been waited for. 128+n in `exit_code` for signal n."""

    METHOD = "process/exited"

    process_id: str
    seq: int
    exit_code: int
    sandbox_denied: bool = False
    signal: str | None = None
    reason: ExitReason = "exited"


class ProcessClosed(NotificationParams, frozen=True):
    """`process/closed`: exited, and every output stream is at its end. The last seq of a process."""

    METHOD = "process/closed"

    process_id: str
    seq: int


class ProcessGap(NotificationParams, frozen=True):
    """`process/gap`: an observer was skipped over `from_seq` to `to_seq` (both included), `bytes` of
    output.
    """

    METHOD = "process/gap"

    process_id: str
    from_seq: int
    to_seq: int
    bytes: int


ProcessNotification = ProcessOutput | ProcessExited | ProcessClosed | ProcessGap
