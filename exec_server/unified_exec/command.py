"""One command of unified exec: what it printed and nobody was shown yet, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from exec_server.client.client import ExecServerClient
from exec_server.client.errors import TransportDisconnected
from exec_server.client.events import Closed, Exited, ExitStatus, Failed, Gap, Output
from exec_server.client.events import Event as ProcessEvent
from exec_server.client.process import Process
from exec_server.unified_exec.characters import WholeCharacters
from exec_server.unified_exec.cutting import cut
from exec_server.unified_exec.limits import RETAINED_BYTES
from exec_server.unified_exec.report import Begin, End, Event, OutputDelta
from protocol.errors import ExecServerError
from protocol.head_tail import HeadTail
from protocol.process import ProcessReadParams, Stream

log = logging.getLogger("exec_server.unified_exec")

QUIET_S = 0.1
"""A descendant may hold the output open after the exit: a command is finished when nothing came for so long,"""
QUIET_MOST_S = 2.0
"""or so long after its exit, in seconds."""

BEYOND = 1 << 53
"""A seq that no event has."""


class UnreadOutput:
    """Output that was taken to be shown."""

    def __init__(self, text: str, omitted_bytes: int, total_bytes: int, notice: str | None) -> None:
        self.text = text
        self.omitted_bytes = omitted_bytes
        self.total_bytes = total_bytes
        self.notice = notice


class RunningCommand:
    """A command from its Begin to its End, both of which it tells. `follow` runs as a task of its owner's."""

    def __init__(
        self, begin: Begin, client: ExecServerClient, process: Process, began: float, tell: Callable[[Event], None]
    ) -> None:
        """`began`: when its start was asked for, in the loop's time."""
        self.begin = begin
        self.process = process
        self.finished = asyncio.Event()
        """Set when it has ended and its output is there."""
        self.status: ExitStatus | None = None
        self.failure: str | None = None
        self.sandbox_denied = False
        self.last_used = 0
        self.forgotten = False
        """Nobody will ask for its output any more."""
        self._client = client
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._began = began
        self._received = 0
        self._characters: dict[Stream, WholeCharacters] = {}
        self._told = HeadTail(RETAINED_BYTES // 2, RETAINED_BYTES // 2)
        self._start_unread()

    @property
    def ended(self) -> bool:
        """Whether it has exited, or nothing more can be heard of it. Output may still come."""
        return self.status is not None or self.finished.is_set()

    @property
    def exit_code(self) -> int | None:
        """As shells have it: 128+n for a death by signal n."""
        if self.status is None:
            return None
        return int(self.status) if self.status >= 0 else 128 - self.status

    async def follow(self) -> None:
        """Take what happens to the process until nothing more can happen; never raises."""
        settling = None
        try:
            async for event in self.process.events:
                self._take(event)
                if isinstance(event, Exited):
                    settling = asyncio.create_task(self._settle())
                await asyncio.sleep(0)  # much may wait, and others have to do something, too
        except Exception as error:
            log.exception("process %s cannot be followed", self.begin.process_id)
            self.finish(f"a fault of the client: {error!r}")
        finally:
            if settling is not None:
                settling.cancel()
                await asyncio.wait([settling])

    def finish(self, failure: str | None = None) -> None:
        """It has ended; with `failure` in another way than by itself. Once: later calls do nothing."""
        if self.finished.is_set():
            return
        for stream, characters in self._characters.items():
            self._append(stream, characters.finish())
        self.failure = failure
        self.finished.set()
        told, self._told = self._told, HeadTail(0, 1)  # nothing more will be told; its room is for others
        self._tell(
            End(
                self.begin.call_id,
                self.begin.process_id,
                self.exit_code,
                failure,
                self._loop.time() - self._began,
                told.total_bytes,
                cut(told.excerpt(), RETAINED_BYTES).text,
            )
        )

    def take(self, limit: int) -> UnreadOutput:
        """Everything since the last time, cut to `limit` bytes."""
        excerpt = self._unread.excerpt()
        text, omitted = cut(excerpt, limit)
        lost = self._lost_bytes
        total = self._unread.total_bytes + lost
        notice = None
        if self._gaps:
            amount = "output was" if self._unknown_loss else f"{lost} bytes of output were"
            notice = f"{amount} lost while there was no connection"
        self._start_unread()
        return UnreadOutput(text, omitted + lost, total, notice)

    def _start_unread(self) -> None:
        self._unread = HeadTail(RETAINED_BYTES // 2, RETAINED_BYTES // 2)
        self._lost_bytes = 0
        self._gaps = 0
        self._unknown_loss = False

    def _take(self, event: ProcessEvent) -> None:
        match event:
            case Output(stream=stream, data=data):
                self._append(stream, self._characters.setdefault(stream, WholeCharacters()).feed(data))
                self._received += 1
            case Gap(size=size):
                self._gaps += 1
                self._lost_bytes += size or 0
                self._unknown_loss |= size is None
            case Exited(status=status, sandbox_denied=denied):
                self.status = status
                self.sandbox_denied = denied
            case Closed():
                self.finish()
            case Failed():
                self.finish(str(event))

    def _append(self, stream: Stream, pieces: list[bytes]) -> None:
        if self.forgotten:
            return
        for data in pieces:
            self._unread.append(data)
            if not self.finished.is_set():
                self._told.append(data)
                self._tell(OutputDelta(self.begin.call_id, self.begin.process_id, stream, data))

    async def _settle(self) -> None:
        """Finish after the exit although something holds the output open."""
        until = self._loop.time() + QUIET_MOST_S
        received = -1
        while received != self._received and self._loop.time() < until and not self.finished.is_set():
            received = self._received
            await asyncio.sleep(QUIET_S)
            try:  # an answer of the server comes behind all that it had sent
                await self._client.call(ProcessReadParams(self.process.process_id, BEYOND))
            except (ExecServerError, TransportDisconnected):
                break  # which is told by the events, too
        self.finish()
