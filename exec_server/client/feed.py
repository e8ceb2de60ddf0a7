"""Which events of one process have come, and which are missing. Pure: it is told, and says what is new.

Events come as notifications, in rising seq, and after a cut also in answers to `process/read`, which tells of output,
but of exit and close only that they happened. Whatever comes twice is dropped; output that is missing for good is a
Gap. docs/protocol.md, "Missing output and resuming", is the source of the rules.
"""

from __future__ import annotations

from exec_server.client.events import Closed, Event, Exited, ExitStatus, Gap, Output
from protocol.client_codec import UNKNOWN_OFFSET
from protocol.process import (
    OutputChunk,
    ProcessClosed,
    ProcessExited,
    ProcessGap,
    ProcessNotification,
    ProcessOutput,
    ProcessReadResult,
)

AHEAD_BYTES = 4 << 20
"""Output ahead of a hole that is kept until the hole is filled, in bytes; beyond that it is read again."""


class Feed:
    """The events of one process. `behind`: some are missing, and have to be read with `afterSeq` = `last_seq`."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.last_seq = 0
        """Everything up to this number has been told, or is in a gap."""
        self.behind = False
        self.exited = False
        self.closed = False
        self._end_offset = 0
        self._gap_since_cut = False
        self._exit_told: ProcessReadResult | None = None  # the exit's own number may be in a gap
        self._ahead: dict[int, ProcessNotification] = {}
        self._ahead_bytes = 0

    def lose_connection(self) -> None:
        """What happens from now on is not notified."""
        self.behind = not self.closed
        self._ahead.clear()
        self._ahead_bytes = 0

    def notified(self, notification: ProcessNotification) -> list[Event]:
        """What a notification brings: nothing, if it is known already or there is a hole before it."""
        if isinstance(notification, ProcessGap):
            return self._gap_told(notification)
        seq = notification.seq
        if seq <= self.last_seq or self.closed:
            return []
        if seq > self.last_seq + 1:
            self.behind = True
            self._keep_ahead(seq, notification)
            return []
        events = self._take(notification)
        if self._ahead:
            events += self._take_ahead()
        return events

    def read(self, result: ProcessReadResult) -> list[Event]:
        """What the answer to a read after `last_seq` brings. Unless `behind` is over then, read once more."""
        if self.closed or not self.behind:
            return []
        if result.exited:
            self._exit_told = result
        events: list[Event] = []
        for chunk in result.chunks:
            events += self._take_chunk(chunk, result)
        had_ahead = bool(self._ahead)
        events += self._take_ahead()
        if not result.chunks:
            events += self._take_end(result)
        elif not had_ahead or self._ahead:
            return events
        elif self._gap_since_cut:
            events += self._exit_read(self.last_seq, result)  # its number may be in the gap
        self.behind = False
        self._gap_since_cut = False
        return events

    def _gap_told(self, gap: ProcessGap) -> list[Event]:
        if gap.to_seq <= self.last_seq:
            return []
        self.last_seq = gap.to_seq
        self._end_offset += gap.bytes
        return [Gap(self.process_id, gap.from_seq, gap.to_seq, gap.bytes)]

    def _keep_ahead(self, seq: int, notification: ProcessNotification) -> None:
        size = len(notification.chunk) if isinstance(notification, ProcessOutput) else 0
        if self._ahead_bytes + size > AHEAD_BYTES:
            self._ahead.clear()
            self._ahead_bytes = 0
        self._ahead[seq] = notification
        self._ahead_bytes += size

    def _take_ahead(self) -> list[Event]:
        events: list[Event] = []
        for seq in sorted(self._ahead):
            if seq > self.last_seq + 1:
                break
            notification = self._ahead.pop(seq)
            if isinstance(notification, ProcessOutput):
                self._ahead_bytes -= len(notification.chunk)
            if seq == self.last_seq + 1:
                events += self._take(notification)
        return events

    def _take(self, notification: ProcessNotification) -> list[Event]:
        """The notification whose number is the next."""
        if isinstance(notification, ProcessOutput):
            return self._take_output(notification)
        if isinstance(notification, ProcessExited):
            self.last_seq = notification.seq
            status = ExitStatus.of(notification.exit_code, notification.signal, notification.reason)
            return self._exit(notification.seq, status, notification.sandbox_denied)
        assert isinstance(notification, ProcessClosed)
        self.last_seq = notification.seq
        self.closed = True
        self.behind = False
        exit = [] if self._exit_told is None else self._exit_read(notification.seq - 1, self._exit_told)
        return [*exit, Closed(self.process_id, notification.seq)]

    def _take_output(self, chunk: ProcessOutput | OutputChunk) -> list[Event]:
        offset = self._end_offset if chunk.offset == UNKNOWN_OFFSET else chunk.offset
        missing: int | None = offset - self._end_offset
        if chunk.offset == UNKNOWN_OFFSET and chunk.seq > self.last_seq + 1:
            missing = None
        events: list[Event] = []
        if missing != 0:
            self._gap_since_cut = True
            events.append(Gap(self.process_id, self.last_seq + 1, chunk.seq - 1, missing))
        self.last_seq = chunk.seq
        self._end_offset = offset + len(chunk.chunk)
        events.append(Output(self.process_id, chunk.seq, chunk.stream, offset, chunk.chunk))
        return events

    def _take_chunk(self, chunk: OutputChunk, result: ProcessReadResult) -> list[Event]:
        if chunk.seq <= self.last_seq:
            return []
        events: list[Event] = []
        hole = chunk.seq - self.last_seq - 1
        if hole and (chunk.offset == self._end_offset or (chunk.offset == UNKNOWN_OFFSET and hole == 1)):
            # A number without output in between can only be that of the exit.
            events += self._exit_read(chunk.seq - 1, result)
            if events:
                self.last_seq = chunk.seq - 1
        return events + self._take_output(chunk)

    def _take_end(self, result: ProcessReadResult) -> list[Event]:
        """Nothing is retained behind `last_seq`: what has a number up to `next_seq` is evicted, exit or close."""
        events: list[Event] = []
        last = result.next_seq - 1
        missing = result.evicted_bytes - self._end_offset
        if missing > 0:
            events.append(Gap(self.process_id, self.last_seq + 1, last - result.exited - result.closed, missing))
            self._end_offset += missing
        events += self._exit_read(last - result.closed, result)
        self.last_seq = max(self.last_seq, last)
        if result.closed and not self.closed:
            self.closed = True
            events.append(Closed(self.process_id, last))
        events += self._take_ahead()
        while self._ahead and not self.closed:
            # The answer was older than these, and what is missing before them was evicted since.
            self.last_seq = min(self._ahead) - 1
            events += self._take_ahead()
        return events

    def _exit_read(self, seq: int, result: ProcessReadResult) -> list[Event]:
        if not result.exited or result.exit_code is None:
            return []
        status = ExitStatus.of(result.exit_code, result.signal, result.reason)
        return self._exit(seq, status, result.sandbox_denied)

    def _exit(self, seq: int, status: ExitStatus, sandbox_denied: bool) -> list[Event]:
        if self.exited:
            return []
        self.exited = True
        return [Exited(self.process_id, seq, status, sandbox_denied)]
