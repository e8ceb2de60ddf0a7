"""Process: the handle of a process on a server, shaped like that of `asyncio.subprocess`."""

from __future__ import annotations

import asyncio
import signal as signals
import subprocess
import uuid
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

from exec_server.client.demultiplexer import READ_MOST, UNKNOWN
from exec_server.client.errors import TransportDisconnected
from exec_server.client.event_buffer import STREAMS, EventBuffer
from exec_server.client.events import Event, ExitStatus, Failed, Gap, Output
from exec_server.client.feed import Feed
from exec_server.client.session import Session
from exec_server.client.streams import AllOutput, Events, OutputStream, gap_error, raise_if_lost
from protocol.errors import ActorLost, ExecServerError
from protocol.process import (
    ProcessCloseStdinParams,
    ProcessEntry,
    ProcessReadParams,
    ProcessResizeParams,
    ProcessSignalParams,
    ProcessTerminateParams,
    ProcessWaitParams,
    ProcessWriteParams,
    ProcessWriteResult,
)

PIECE = 256 << 10
"""Bytes of input in one request."""
WINDOW = 1 << 20
"""Bytes of input of one process that may be unanswered; more wait here."""
WAIT_MS = 60_000
"""How long the server waits for an exit until it answers that there was none, in milliseconds."""


class EventSource(Protocol):
    """Where the events of a process come from: notifications of one's own session, or reads of another."""

    process_id: str
    buffer: EventBuffer

    def put(self, events: list[Event]) -> None:
        """Events that are known otherwise."""


class Process:
    """A process on a server. Methods and attributes are those of `asyncio.subprocess.Process` where they do the same.

    Its output waits here until it is read: up to 4 MiB, then the server is asked to hold the process. So who only
    calls `wait`, and leaves output unread, may wait for ever, as with pipes; `communicate` reads.

    A cut connection is resumed behind the back of all this. If that fails, reading and `wait` raise
    TransportDisconnected, as does everything else.
    """

    def __init__(
        self,
        session: Session,
        source: EventSource,
        args: list[str],
        tty: bool,
        piped: bool,
        elsewhere: str | None = None,
        entry: ProcessEntry | None = None,
    ) -> None:
        """`elsewhere`: the id of the session that it is in, if that is not `session`. `entry`: what was told of it."""
        self.process_id = source.process_id
        """Its id in its session."""
        self.args = args
        self.tty = tty
        self._session = session
        self._source = source
        self._elsewhere = elsewhere
        self._exit_told = None if entry is None else _exit_in(entry)
        self._piped = piped
        self._buffer = source.buffer
        self.stdout = OutputStream(source.buffer, "stdout", "pty")
        """Standard output; all output, for a process on a terminal."""
        self.stderr = OutputStream(source.buffer, "stderr")
        """Standard error; nothing, for a process on a terminal."""
        self.output = AllOutput(source.buffer)
        """All output in order, as `Output` with stream and seq."""
        self.events = Events(source.buffer)
        """Output, Gap, Exited, Closed, Failed, in order."""
        self._collected: dict[str, list[bytes]] = {"stdout": [], "stderr": [], "pty": []}
        self._unanswered: deque[tuple[int, asyncio.Future[ProcessWriteResult]]] = deque()
        self._writing = asyncio.Lock()
        self._writers: set[asyncio.Task[None]] = set()
        self._feeding: asyncio.Task[None] | None = None
        self._write_prefix = uuid.uuid4().hex
        self._writes = 0

    def __repr__(self) -> str:
        status = self.returncode
        return f"<Process {self.process_id} {self.args!r}: {'running' if status is None else repr(status)}>"

    @property
    def returncode(self) -> ExitStatus | None:
        """How it ended, as `wait` returns it; None before that is known."""
        return self._exit_told if self._buffer.exit is None else self._buffer.exit.status

    async def wait(self) -> ExitStatus:
        """Wait until the process has exited. Output may still come afterwards."""
        if self._elsewhere is not None:
            return await self._wait_elsewhere(self._elsewhere)
        while self._buffer.exit is None:
            raise_if_lost(self._buffer)
            if self._buffer.end is not None:
                raise TransportDisconnected(f"how process {self.process_id} ended is not known")
            await self._buffer.change()
        return self._buffer.exit.status

    async def _wait_elsewhere(self, session_id: str) -> ExitStatus:
        """Ask for the exit, so that no output has to be read for it. What a list told of it lacks the reason."""
        while self._buffer.exit is None:
            result = await self._session.call(ProcessWaitParams(self.process_id, WAIT_MS, session_id))
            if result.exited and result.exit_code is None:
                raise ActorLost(f"how process {self.process_id} ended is not known")
            if result.exited and result.exit_code is not None:
                self._exit_told = ExitStatus.of(result.exit_code, result.signal, result.reason)
                return self._exit_told
        return self._buffer.exit.status

    async def retained(self) -> AsyncIterator[Event]:
        """What the server has retained of its output until now, from the beginning, and its end, if that has come; a
        Gap where output is evicted. Nothing is taken from `events` and the streams. Raises UnknownProcess.
        """
        feed = Feed(self.process_id)
        chunks = True
        while chunks and not feed.closed:
            feed.behind = True
            params = ProcessReadParams(
                self.process_id, after_seq=feed.last_seq, max_bytes=READ_MOST, session_id=self._elsewhere
            )
            result = await self._session.call(params)
            chunks = bool(result.chunks)
            for event in feed.read(result):
                yield event

    # -- input --------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Write to standard input; returns when the server has all of it, which waits for a process that does not read.

        Writes are done in the order of their calls. What a cut leaves unanswered is sent again, and arrives once.
        Raises BrokenPipeError if standard input is closed, was never opened (`stdin=PIPE`), or the process has ended.

        If this is cancelled, or times out, the write goes on: the process gets all of `data`, and later writes and the
        end of the input come behind it. An error of the rest is raised by them.
        """
        task = asyncio.create_task(self._write(bytes(data)))
        self._writers.add(task)
        task.add_done_callback(self._written)
        await asyncio.shield(task)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writers.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has it; else the next write meets the same

    async def _write(self, data: bytes) -> None:
        sent: list[asyncio.Future[ProcessWriteResult]] = []
        async with self._writing:
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                await self._room_for(len(piece))
                sent.append(self._send(piece))
        for answer in sent:
            self._check(await answer)

    async def close_stdin(self) -> None:
        """The end of the input, behind all writes before it; on a terminal what ^D is at this moment.

        Nothing happens if standard input is closed already, or the process has ended.
        """
        async with self._writing:
            params = ProcessCloseStdinParams(self.process_id, self._elsewhere)
            answer = self._session.post(params, repeat=not self.tty).future
        self._check_known(await answer)

    async def _room_for(self, size: int) -> None:
        while self._unanswered and sum(each for each, _ in self._unanswered) + size > WINDOW:
            answer = self._unanswered[0][1]
            await asyncio.wait([answer])
            if self._unanswered and self._unanswered[0][1] is answer:
                self._unanswered.popleft()

    def _send(self, piece: bytes) -> asyncio.Future[ProcessWriteResult]:
        self._writes += 1
        write_id = f"{self._write_prefix}-{self._writes}"
        params = ProcessWriteParams(self.process_id, piece, write_id, session_id=self._elsewhere)
        answer = self._session.post(params).future
        while self._unanswered and self._unanswered[0][1].done():
            self._unanswered.popleft()
        self._unanswered.append((len(piece), answer))
        return answer

    def _check(self, result: ProcessWriteResult) -> None:
        self._check_known(result)
        if result.status != "accepted":
            raise BrokenPipeError(f"standard input of process {self.process_id} is closed")

    def _check_known(self, result: ProcessWriteResult) -> None:
        if result.status == "unknownProcess":
            self._source.put([Failed(self.process_id, UNKNOWN, "unknownProcess")])
            raise BrokenPipeError(f"process {self.process_id} has ended, and the server has forgotten it")

    # -- control ------------------------------------------------------------------------------------------------

    async def resize(self, rows: int, cols: int) -> None:
        """A new size for its terminal. Raises InvalidParams for a process without one."""
        await self._session.call(ProcessResizeParams(self.process_id, rows, cols, self._elsewhere))

    async def signal(self, signal: int | str) -> None:
        """Send a signal to its process group: `signal.SIGINT`, or the name. Nothing happens if it has ended."""
        name = signal if isinstance(signal, str) else signals.Signals(signal).name
        if name == "SIGINT":
            name = "interrupt"  # which servers without names of signals know, too
        await self._session.call(ProcessSignalParams(self.process_id, name, self._elsewhere))

    send_signal = signal

    async def terminate(self, grace: float = 5.0) -> bool:
        """SIGTERM, and after `grace` seconds SIGKILL to what is left of it and its descendants.

        Returns at once; whether it was running.
        """
        params = ProcessTerminateParams(self.process_id, "graceful", round(grace * 1000), self._elsewhere)
        return await self._terminate(params)

    async def kill(self) -> bool:
        """SIGKILL to it and its descendants; whether it was running."""
        return await self._terminate(ProcessTerminateParams(self.process_id, session_id=self._elsewhere))

    async def _terminate(self, params: ProcessTerminateParams) -> bool:
        return (await self._session.call(params)).running

    # -- all at once --------------------------------------------------------------------------------------------

    async def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write `input`, close standard input, and read to the end; standard output and error.

        Of a process on a terminal all output is the first. Raises subprocess.TimeoutExpired after `timeout` seconds,
        with the output so far; the process goes on, its input is written on, and nothing is lost if this is called
        again: without `input`, else ValueError is raised, as it has its input already. The same holds if this is
        cancelled. That the process does not read its input is ignored.
        """
        if self._feeding is not None and input:
            raise ValueError("the process has its input already: call communicate() again without")
        try:
            async with asyncio.timeout(timeout):
                await self._communicate(input)
        except TimeoutError:
            out, err = self._so_far()
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0, out, err) from None
        return self._so_far()

    async def _communicate(self, input: bytes | None) -> None:
        if self._feeding is None and (input is not None or self._piped):
            self._feeding = asyncio.create_task(self._feed(input or b""))
            self._feeding.add_done_callback(_seen)
        while (event := await self._buffer.get(STREAMS)) is not None:
            if isinstance(event, Gap):
                raise gap_error(event)
            assert isinstance(event, Output)
            self._collected[event.stream].append(event.data)
        raise_if_lost(self._buffer)
        if self._feeding is not None and self._feeding.done():
            self._feeding.result()

    async def _feed(self, input: bytes) -> None:
        try:
            await self.write(input)
            await self.close_stdin()
        except (BrokenPipeError, TransportDisconnected):
            pass  # the end of the output tells

    def _so_far(self) -> tuple[bytes, bytes]:
        parts = self._collected
        return b"".join(parts["stdout"] + parts["pty"]), b"".join(parts["stderr"])

    async def __aenter__(self) -> Process:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Kill it, if it still runs and is one of the client's own session."""
        if self._buffer.end is None and self._elsewhere is None:
            try:
                await self.kill()
            except (ExecServerError, TransportDisconnected):
                pass  # there is nothing to kill any more


def _seen(task: asyncio.Task[None]) -> None:
    """What it raised is raised by `communicate`, if that is still waited for."""
    if not task.cancelled():
        task.exception()


def _exit_in(entry: ProcessEntry) -> ExitStatus | None:
    if entry.running or entry.exit_code is None:
        return None
    return ExitStatus.of(entry.exit_code, entry.signal, None)
