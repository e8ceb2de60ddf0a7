"""What is known of one process: its numbered output, its exit, and the answers that follow from them; pure."""

from __future__ import annotations

import signal

from actors.process.long_polls import LongPoll
from actors.system.sandbox.denial import LAST, tells_of_denial
from protocol.errors import InvalidParams
from protocol.head_tail import Excerpt, HeadTail
from protocol.output_log import OutputLog
from protocol.process import (
    ExitReason,
    ProcessClosed,
    ProcessExited,
    ProcessGap,
    ProcessOutput,
    ProcessReadParams,
    ProcessReadResult,
    ProcessSnapshotResult,
    ProcessWaitResult,
    Stream,
    StreamBytes,
)

SNAPSHOT_TAIL = 65536
"""At least so many of the last bytes of each stream are kept for a snapshot."""


class ProcessHistory:
    """Numbers what happens to a process, in one sequence without a hole, and keeps a bounded amount of it.

    Grows only by `output`, `exited` and `closed`, in that order: no output after `closed`, one exit.
    """

    __slots__ = (
        "_excerpts",
        "_exit_offset",
        "_log",
        "_process_id",
        "_retain_head",
        "_sandboxed",
        "closed_event",
        "exit",
    )

    def __init__(self, process_id: str, retained_output: int, retain_head: int, sandboxed: bool = False) -> None:
        self._sandboxed = sandboxed
        self._process_id = process_id
        self._log = OutputLog(retained_output)
        self._retain_head = retain_head
        self._excerpts: dict[Stream, HeadTail] = {}
        self._exit_offset = 0
        self.exit: ProcessExited | None = None
        self.closed_event: ProcessClosed | None = None

    # -- what happens ---------------------------------------------------------------------------------------------

    def output(self, stream: Stream, data: bytes) -> ProcessOutput:
        """The child printed; the event that tells of it."""
        excerpt = self._excerpts.get(stream)
        if excerpt is None:
            excerpt = self._excerpts[stream] = HeadTail(self._retain_head, SNAPSHOT_TAIL)
        excerpt.append(data)
        return ProcessOutput.of(self._process_id, self._log.append(stream, data))

    def exited(self, code: int, signum: int | None, reason: ExitReason | None) -> ProcessExited:
        """The child ended; `reason` None where it did so of its own accord or of a stranger's signal."""
        self._exit_offset = self._log.total_bytes
        self.exit = ProcessExited(
            process_id=self._process_id,
            seq=self._log.take_seq(),
            exit_code=code,
            sandbox_denied=self._sandboxed and tells_of_denial(code, self._log.tail(LAST)),
            signal=None if signum is None else signal_name(signum),
            reason=reason or ("exited" if signum is None else "signaled"),
        )
        return self.exit

    def closed(self) -> ProcessClosed:
        """The child has ended and nobody can print any more."""
        self.closed_event = ProcessClosed(process_id=self._process_id, seq=self._log.take_seq())
        return self.closed_event

    # -- what it costs --------------------------------------------------------------------------------------------

    @property
    def total_charged(self) -> int:
        """Grows with all that was ever kept."""
        return self._log.total_charged

    @property
    def evicted_bytes(self) -> int:
        """Output that the log had to give up."""
        return self._log.evicted_bytes

    @property
    def retained_bytes(self) -> int:
        """What is kept now: the log as it is charged, and head and tail of each stream."""
        return self._log.charged + sum(excerpt.held_bytes for excerpt in self._excerpts.values())

    # -- what a client is told ------------------------------------------------------------------------------------

    def read(self, params: ProcessReadParams) -> ProcessReadResult:
        """What there is now (docs/protocol.md, "process/read")."""
        chunks, next_seq = self._log.read(params.after_seq, params.max_bytes)
        exit = self.exit
        return ProcessReadResult(
            chunks=chunks,
            next_seq=next_seq,
            exited=exit is not None,
            exit_code=None if exit is None else exit.exit_code,
            closed=self.closed_event is not None,
            sandbox_denied=exit is not None and exit.sandbox_denied,
            signal=None if exit is None else exit.signal,
            reason=None if exit is None else exit.reason,
            first_retained_seq=self._log.first_retained_seq,
            first_retained_offset=self._log.first_retained_offset,
            evicted_bytes=self._log.evicted_bytes,
        )

    def news(self, params: ProcessReadParams) -> ProcessReadResult | None:
        """The answer to a read that may wait, or None where there is nothing new for it.

        Closed, or an exit that was not told yet, is news; with `returns_at_exit` every exit is.
        """
        if self._log.next_seq - 1 > params.after_seq:
            result = self.read(params)
            if result.chunks or self.exit is not None:
                return result
        if self.closed_event is not None or (params.returns_at_exit and self.exit is not None):
            return self.read(params)
        return None

    def wait(self) -> ProcessWaitResult:
        """How the process stands."""
        exit = self.exit
        return ProcessWaitResult(
            exited=exit is not None,
            exit_code=None if exit is None else exit.exit_code,
            signal=None if exit is None else exit.signal,
            reason=None if exit is None else exit.reason,
            closed=self.closed_event is not None,
        )

    def answer(self, waiter: LongPoll) -> ProcessReadResult | ProcessWaitResult | None:
        """What a waiting request can be answered now, or None where it goes on waiting."""
        if isinstance(waiter.params, ProcessReadParams):
            return self.news(waiter.params)
        return None if self.exit is None else self.wait()

    def answer_anyway(self, waiter: LongPoll) -> ProcessReadResult | ProcessWaitResult:
        """The answer to a waiting request whose time is over."""
        return self.read(waiter.params) if isinstance(waiter.params, ProcessReadParams) else self.wait()

    def output_since(self, after_seq: int, up_to: int | None = None) -> tuple[list[bytes], int, bool]:
        """Output after `after_seq`, up to `up_to` or the newest; the seq to go on from, and whether nothing between is
        lost."""
        chunks, next_seq = self._log.read(after_seq, None)
        if up_to is not None:
            chunks, next_seq = [chunk for chunk in chunks if chunk.seq <= up_to], max(after_seq, up_to) + 1
        first = self._log.first_retained_seq
        whole = not self._log.evicted_bytes or (first is not None and first <= after_seq + 1)
        return [chunk.chunk for chunk in chunks], next_seq - 1, whole

    def snapshot(self) -> ProcessSnapshotResult:
        """Head and tail of each stream, with the exact number of bytes between them that are gone."""
        excerpts = {stream: kept.excerpt() for stream, kept in self._excerpts.items()}
        nothing = Excerpt(b"", 0, 0)
        stdout, stderr, terminal = (excerpts.get(stream, nothing) for stream in ("stdout", "stderr", "pty"))
        exit = self.exit
        return ProcessSnapshotResult(
            stdout=stdout.data,
            stderr=stderr.data,
            terminal=terminal.data,
            truncated=bool(stdout.dropped_bytes or stderr.dropped_bytes or terminal.dropped_bytes),
            head_bytes=StreamBytes(stdout.head_bytes, stderr.head_bytes, terminal.head_bytes),
            dropped_bytes=StreamBytes(stdout.dropped_bytes, stderr.dropped_bytes, terminal.dropped_bytes),
            running=exit is None,
            exit_code=None if exit is None else exit.exit_code,
            signal=None if exit is None else exit.signal,
        )

    # -- what an observer is told -------------------------------------------------------------------------------

    @property
    def next_seq(self) -> int:
        """The number that the next event will get."""
        return self._log.next_seq

    def replay(
        self, after_seq: int, after_offset: int | None = None
    ) -> list[ProcessGap | ProcessOutput | ProcessExited | ProcessClosed]:
        """All that happened after `after_seq`, with its own numbers; a gap stands for what is gone.

        `after_offset` is how many bytes of output the events up to `after_seq` had; where they are evicted, only who
        heard them knows. Raises InvalidParams where it is certainly another number.
        """
        chunks, _ = self._log.read(after_seq, None)
        gaps = self._gaps(after_seq, after_offset or 0)
        if after_offset is not None:
            behind = chunks[0].offset if chunks else self._log.total_bytes
            if after_offset + sum(gap.bytes for gap in gaps) != behind:
                text = f"invalid `afterOffset`: the output up to seq {after_seq} has not {after_offset} bytes"
                raise InvalidParams(text, {"kind": "wrongOffset"})
        events: list[ProcessGap | ProcessOutput | ProcessExited | ProcessClosed] = [*gaps]
        events += [ProcessOutput.of(self._process_id, chunk) for chunk in chunks]
        events += [each for each in (self.exit, self.closed_event) if each is not None and each.seq > after_seq]
        events.sort(key=_position)
        return events

    def _gaps(self, after_seq: int, after_offset: int) -> list[ProcessGap]:
        """What was evicted after `after_seq`, on both sides of the exit if that is between. Bytes are exact if the
        output up to `after_seq` had `after_offset` bytes.
        """
        evicted = self._log.evicted_bytes
        last = (self._log.first_retained_seq or self._log.next_seq) - 1
        if self.closed_event is not None and self.closed_event.seq == last:
            last -= 1
        exit = self.exit
        if exit is None or exit.seq > last:
            pieces = [(after_seq + 1, last, evicted - after_offset)]
        else:
            pieces = [
                (after_seq + 1, exit.seq - 1, self._exit_offset - after_offset),
                (max(after_seq, exit.seq) + 1, last, evicted - max(self._exit_offset, after_offset)),
            ]
        return [
            ProcessGap(process_id=self._process_id, from_seq=first, to_seq=final, bytes=size)
            for first, final, size in pieces
            if first <= final and size > 0
        ]


def _position(event: ProcessGap | ProcessOutput | ProcessExited | ProcessClosed) -> int:
    return event.from_seq if isinstance(event, ProcessGap) else event.seq


def signal_name(signum: int) -> str:
    """`SIGKILL`; `SIGRTMIN+1` for a signal that has no name of its own."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIGRTMIN+{signum - signal.SIGRTMIN}"
