"""ProcessActor: one child, its OutputLog, its stdin queue, its exit.

What a client sees without asking leaves as one ordered stream to the router: the answer to start, then output, exited
and closed in rising seq without a hole. Answers to other requests go straight to the bridge that asked.
"""

from __future__ import annotations

import enum
import signal
from typing import Any, cast

import msgspec
from thespian.actors import ActorExitRequest, ThespianWatch, WakeupMessage, WatchMessage

from actors import streams
from actors.answers import unknown_process_answer
from actors.child.environment import child_environment
from actors.child.spawn import Child, SpawnRequest, spawn_soon
from actors.deadlines import Deadlines
from actors.guarded import GuardedActor, log
from actors.lull import Lull
from actors.messages import (
    Address,
    Answer,
    BridgeDetached,
    Call,
    EndWaits,
    Failure,
    Forget,
    Forgotten,
    HoldOutput,
    OutputReleased,
    ProcessEnded,
    ProcessEvent,
    ProcessStarted,
    ReleaseOutput,
    StartFailed,
    StartProcess,
)
from actors.settings import MAX_WAIT_S, Settings
from actors.stdin import StdinQueue, Write
from actors.streams import ChildStreams
from protocol.errors import ExecServerError, InternalError, InvalidParams, SpawnError
from protocol.output_log import OutputLog
from protocol.paths import cwd_path
from protocol.process import (
    ExitReason,
    ManagedPermissions,
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessReadParams,
    ProcessReadResult,
    ProcessSignalParams,
    ProcessStartParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWriteParams,
    ProcessWriteResult,
    Stream,
    WriteStatus,
)
from protocol.wire_types import Empty

DRAINED_AT_EXIT = 1 << 20
"""Bytes of a stream that are read before `exited` is sent, so that a short command's output comes before its exit."""
JOBS_CHECK_S = 30.0
"""How often a forgotten process looks whether its background jobs still run, in seconds."""
TERMINAL_RETRY_S = 0.5
"""How often a terminal that nobody has open is looked at again while its child lives, in seconds."""


class State(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"  # the child is reaped; a stream is still open
    CLOSED = "closed"  # nothing but retained bytes is left
    FAILED = "failed"  # there never was a child


class CloseSelector(msgspec.Struct, frozen=True, gc=False):
    """To oneself at `closed`: the watch is gone by now, so the selector's number may be reused."""


class WaitingRead(msgspec.Struct, frozen=True, gc=False):
    """A process/read that waits for something new."""

    token: int
    bridge: Address
    params: ProcessReadParams
    seed: bool


class ProcessActor(GuardedActor):
    """One child process of a session."""

    _start: StartProcess
    _settings: Settings
    _streams: ChildStreams
    _log: OutputLog
    _stdin: StdinQueue
    _connection: Address

    def __init__(self) -> None:
        super().__init__()
        self._state = State.STARTING
        self._watch: ThespianWatch | None = None
        self._child: Child | None = None
        self._deferred: list[Call | EndWaits] = []
        self._reads: list[WaitingRead] = []
        self._lull = Lull()
        self._deadlines: Deadlines | None = None
        self._reason: ExitReason | None = None
        self._kill_at_start = False
        self._exit: ProcessExited | None = None

    def watch(self) -> ThespianWatch | None:
        return None if self._lull.resting else self._watch

    # -- start --------------------------------------------------------------------------------------------------

    def receiveMsg_StartProcess(self, message: StartProcess, connection: Address) -> None:
        self._connection = connection
        self._start = message
        self._settings = message.settings
        self._log = OutputLog(message.settings.retained_output)
        self._stdin = StdinQueue(message.settings.stdin_queue)
        try:
            ticket = spawn_soon(spawn_request(message.params))
        except ExecServerError as error:
            self._fail_start(error)
            return
        self._streams = ChildStreams()
        self._streams.await_spawn(ticket)
        self._watch = ThespianWatch([self._streams.fileno()])
        if message.held:
            self._streams.hold()

    def _spawned(self) -> None:
        start = self._start
        try:
            self._child = self._streams.take_child()
        except SpawnError as error:
            self._close_selector_later()
            self._fail_start(error)
            return
        self._state = State.RUNNING
        result = ProcessStartResult(process_id=start.params.process_id)
        self.send(start.router, ProcessStarted(start.session_id, start.bridge, start.token, result))
        if self._kill_at_start:
            self._kill()
        self._answer_deferred()

    def _fail_start(self, error: ExecServerError) -> None:
        start = self._start
        self._state = State.FAILED
        self.send(self._connection, StartFailed(start.params.process_id, start.token, start.bridge, error))
        self._answer_deferred()

    def _answer_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for message in deferred:
            if isinstance(message, Call):
                self._guarded_call(message)
            else:
                self._end_waits(message.bridge)

    # -- requests -----------------------------------------------------------------------------------------------

    def receiveMsg_Call(self, call: Call, sender: Address) -> None:
        if self._state is State.STARTING and not isinstance(call.params, ProcessTerminateParams):
            self._deferred.append(call)
        else:
            self._guarded_call(call)

    def _guarded_call(self, call: Call) -> None:
        try:
            self._call(call)
        except ExecServerError as error:
            self.send(call.bridge, Failure(call.token, error))

    def _call(self, call: Call) -> None:
        if self._state is State.FAILED:
            answer = unknown_process_answer(call.params, self._start.params.process_id)
            if isinstance(answer, ExecServerError):
                raise answer
            self.send(call.bridge, Answer(call.token, answer))
            return
        match call.params:
            case ProcessReadParams():
                self._read(call, call.params)
            case ProcessWriteParams():
                self._write(call, call.params)
            case ProcessSignalParams():
                if self._state is State.RUNNING and self._child is not None:
                    self._child.signal_group(call.params.number)
                self.send(call.bridge, Answer(call.token, Empty()))
            case ProcessTerminateParams():
                self.send(call.bridge, Answer(call.token, ProcessTerminateResult(running=self._terminate())))
            case _:
                raise InternalError(f"a process cannot answer {type(call.params).__name__}")

    def _terminate(self) -> bool:
        if self._state is State.STARTING:
            self._kill_at_start = True
            self._reason = "terminated"
            return True
        if self._state is State.RUNNING:
            self._reason = "terminated"
            self._kill()
            return True
        if self._state is State.EXITED:
            self._kill()
        return False

    def _kill(self) -> None:
        """Kill the child or what it left behind."""
        if self._child is not None:
            self._child.kill_tree()

    # -- reads --------------------------------------------------------------------------------------------------

    def _read(self, call: Call, params: ProcessReadParams) -> None:
        read = WaitingRead(call.token, call.bridge, params, call.seed)
        result = self._read_now(read)
        if result is None and params.wait_ms:
            self._reads.append(read)
            self._timers().set(("read", read.token), min(params.wait_ms / 1000, MAX_WAIT_S))
        else:
            self._answer_read(read, result)

    def _read_now(self, read: WaitingRead) -> ProcessReadResult | None:
        """The result, or None where a read with time left goes on waiting (wire-spec 5.3)."""
        after = read.params.after_seq or 0
        if self._log.next_seq - 1 > after:
            result = self._read_result(read)
            if result.chunks or self._state is not State.RUNNING:
                return result
        if self._state is State.CLOSED or (read.seed and self._state is State.EXITED):
            return self._read_result(read)
        return None

    def _read_result(self, read: WaitingRead) -> ProcessReadResult:
        chunks, next_seq = self._log.read(read.params.after_seq or 0, read.params.max_bytes)
        exit = self._exit
        return ProcessReadResult(
            chunks=chunks,
            next_seq=next_seq,
            exited=exit is not None,
            exit_code=None if exit is None else exit.exit_code,
            closed=self._state is State.CLOSED,
            signal=None if exit is None else exit.signal,
            reason=None if exit is None else exit.reason,
            first_retained_seq=self._log.first_retained_seq,
            first_retained_offset=self._log.first_retained_offset,
            evicted_bytes=self._log.evicted_bytes,
        )

    def _answer_read(self, read: WaitingRead, result: ProcessReadResult | None = None) -> None:
        self.send(read.bridge, Answer(read.token, result or self._read_result(read)))

    def _answer_ready_reads(self) -> None:
        if not self._reads:
            return
        waiting = []
        for read in self._reads:
            result = self._read_now(read)
            if result is None:
                waiting.append(read)
            else:
                self._timers().cancel(("read", read.token))
                self._answer_read(read, result)
        self._reads = waiting

    def _end_reads(self, bridge: Address, answered: bool) -> None:
        for read in self._reads:
            if read.bridge == bridge:
                self._timers().cancel(("read", read.token))
                if answered:
                    self._answer_read(read)
        self._reads = [read for read in self._reads if read.bridge != bridge]

    # -- input --------------------------------------------------------------------------------------------------

    def _write(self, call: Call, params: ProcessWriteParams) -> None:
        if not self._stdin_open():
            self._answer_write(call.bridge, call.token, "stdinClosed")
            return
        write = Write(call.token, call.bridge, params.write_id, params.chunk)
        if self._stdin.offer(write):
            self._answer_write(call.bridge, call.token, "accepted")
        self._lull.stir()
        self._push_input()

    def _stdin_open(self) -> bool:
        return self._state is State.RUNNING and self._streams.has_input and not self._stdin.ending

    def _answer_write(self, bridge: Address, token: int, status: WriteStatus) -> None:
        self.send(bridge, Answer(token, ProcessWriteResult(status=status, accepted=status == "accepted")))

    def _push_input(self) -> None:
        while (chunk := self._stdin.next_chunk()) is not None:
            try:
                count = self._streams.write(chunk)
            except OSError:
                # EPIPE: nobody has the other end open any more (write(2)); EIO on a terminal means the same.
                self._close_input()
                return
            if not count:
                break
            for write in self._stdin.written(count):
                self._answer_write(write.bridge, write.token, "accepted")
        self._streams.want_room(chunk is not None)
        if chunk is None and self._stdin.ending:
            self._close_input()

    def _close_input(self) -> None:
        self._streams.close_input()
        for write in self._stdin.close():
            self._answer_write(write.bridge, write.token, "stdinClosed")

    # -- what the child does ------------------------------------------------------------------------------------

    def receiveMsg_WatchMessage(self, message: WatchMessage, sender: Address) -> None:
        if self._watch is None:
            return
        for name in self._streams.ready():
            if name == streams.SPAWN:
                self._spawned()
            elif name == streams.EXIT:
                self._exited()
            elif name == streams.STDIN:
                self._push_input()
            elif name in self._streams.outputs and not self._streams.held:
                self._take_output(name)

    def _take_output(self, name: Stream) -> int:
        """Read a stream once and send it on; the number of bytes, 0 where there was nothing or the stream ended."""
        data = self._streams.read(name)
        if data is None:
            return 0
        if not data:
            self._output_ended(name)
            return 0
        if self._lull.read(len(data)):
            self._timers().set("lull", self._lull.rest_s)
        chunk = self._log.append(name, data)
        event = ProcessOutput.of(self._start.params.process_id, chunk)
        self.send(self._start.router, ProcessEvent(self._start.session_id, event))
        self._answer_ready_reads()
        return len(data)

    def _output_ended(self, name: Stream) -> None:
        if name == "pty" and self._state is State.RUNNING:
            self._streams.park(name)
            self._timers().set("terminal", TERMINAL_RETRY_S)
            return
        self._streams.close_output(name)
        self._close_if_done()

    def _exited(self) -> None:
        child = self._child
        assert child is not None
        self._state = State.EXITED
        self._streams.unpark()
        if not self._streams.held:
            self._drain()
        self._streams.forget_exit(child)
        status = child.reap()
        self._close_input()
        default: ExitReason = "exited" if status.signal is None else "signaled"
        self._exit = ProcessExited(
            process_id=self._start.params.process_id,
            seq=self._log.take_seq(),
            exit_code=status.code,
            signal=None if status.signal is None else signal.Signals(status.signal).name,
            reason=self._reason or default,
        )
        self.send(self._start.router, ProcessEvent(self._start.session_id, self._exit))
        self._answer_ready_reads()
        if self._start.params.closed_after_exit_ms is not None and self._streams.outputs:
            self._timers().set("closed", min(self._start.params.closed_after_exit_ms / 1000, MAX_WAIT_S))
        self._close_if_done()

    def _drain(self) -> None:
        for name in self._streams.outputs:
            taken = 0
            while taken < DRAINED_AT_EXIT and name in self._streams.outputs and (count := self._take_output(name)):
                taken += count

    def _close_if_done(self) -> None:
        if self._exit is None or self._state is not State.EXITED or self._streams.outputs:
            return
        self._state = State.CLOSED
        closed = ProcessClosed(process_id=self._start.params.process_id, seq=self._log.take_seq())
        self.send(self._start.router, ProcessEvent(self._start.session_id, closed))
        self._answer_ready_reads()
        self._close_selector_later()
        self.send(self._connection, ProcessEnded(self._start.params.process_id))

    def _close_selector_later(self) -> None:
        self._watch = None
        self.send(self.myAddress, CloseSelector())

    def receiveMsg_CloseSelector(self, message: CloseSelector, sender: Address) -> None:
        self._streams.close()

    # -- time, flow, bridges ------------------------------------------------------------------------------------

    def _timers(self) -> Deadlines:
        if self._deadlines is None:
            self._deadlines = Deadlines(self.wakeupAfter)
        return self._deadlines

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for key in self._timers().due(message.payload):
            if key == "lull":
                self._lull.end()
            elif key == "terminal":
                self._streams.unpark()
            elif key == "jobs":
                self._end_if_forgotten()
            elif key == "closed":
                self._abandon_outputs()
            else:
                self._read_timed_out(cast(tuple[str, int], key)[1])

    def _read_timed_out(self, token: int) -> None:
        for read in self._reads:
            if read.token == token:
                self._reads.remove(read)
                self._answer_read(read)
                return

    def _abandon_outputs(self) -> None:
        if self._state is State.EXITED:
            self._streams.close_streams()
            self._close_if_done()

    def receiveMsg_HoldOutput(self, message: HoldOutput, sender: Address) -> None:
        if self._watch is not None:
            self._streams.hold()

    def receiveMsg_ReleaseOutput(self, message: ReleaseOutput, sender: Address) -> None:
        if self._watch is not None:
            self._streams.release()
            if self._state in (State.RUNNING, State.EXITED):
                for name in self._streams.outputs:
                    self._take_output(name)
        self.send(self._connection, OutputReleased(self._start.params.process_id))

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, sender: Address) -> None:
        self._end_reads(message.bridge, answered=False)
        if self._stdin.withdraw(message.bridge):
            self._push_input()

    def receiveMsg_EndWaits(self, message: EndWaits, sender: Address) -> None:
        if self._state is State.STARTING:
            self._deferred.append(message)
        else:
            self._end_waits(message.bridge)

    def _end_waits(self, bridge: Address) -> None:
        self._end_reads(bridge, answered=True)
        for write in self._stdin.withdraw(bridge):
            error = InternalError("the connection's input ended before standard input had room for this write")
            self.send(write.bridge, Failure(write.token, error))

    # -- the end ------------------------------------------------------------------------------------------------

    def receiveMsg_Forget(self, message: Forget, sender: Address) -> None:
        self._log = OutputLog(0)
        self._end_if_forgotten()

    def _end_if_forgotten(self) -> None:
        """Background jobs live as long as their session, and with them this actor, which can attribute them."""
        if self._child is not None and self._child.has_descendants():
            self._timers().set("jobs", JOBS_CHECK_S)
        else:
            self.send(self._connection, Forgotten())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """End the child, if there is one, with all its descendants, and close everything."""
        self._watch = None
        child, self._child = self._child, None
        if hasattr(self, "_streams"):
            self._streams.close()
        if child is not None:
            child.kill_tree()
            child.release()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """Answer who asked; if the child was at fault, end it as a lost one, so that nobody waits for ever."""
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        elif isinstance(message, StartProcess) and self._state is State.STARTING:
            self._fail_start(InternalError(f"the start failed inside the server: {error}"))
        elif isinstance(message, WatchMessage) and self._state in (State.RUNNING, State.EXITED):
            self._end_after_fault()

    def _end_after_fault(self) -> None:
        log.error("process %r is ended after a fault of the server", self._start.params.process_id)
        if self._exit is None:
            self._exit = ProcessExited(
                process_id=self._start.params.process_id,
                seq=self._log.take_seq(),
                exit_code=128 + signal.SIGKILL,
                signal="SIGKILL",
                reason="terminated",
            )
            self.send(self._start.router, ProcessEvent(self._start.session_id, self._exit))
        self._let_go()
        self._state = State.CLOSED
        closed = ProcessClosed(process_id=self._start.params.process_id, seq=self._log.take_seq())
        self.send(self._start.router, ProcessEvent(self._start.session_id, closed))
        self._answer_ready_reads()
        self.send(self._connection, ProcessEnded(self._start.params.process_id))


def spawn_request(params: ProcessStartParams) -> SpawnRequest:
    """What to spawn for a process/start. Raises InvalidParams or SpawnError where the params cannot be carried out."""
    if params.sandbox is not None and isinstance(params.sandbox.permissions, ManagedPermissions):
        raise InvalidParams("sandboxing is not supported by this executor", {"kind": "sandboxUnsupported"})
    return SpawnRequest(
        argv=params.argv,
        cwd=cwd_path(params.cwd),
        env=child_environment(params.env, params.env_policy, params.tty),
        tty=params.tty,
        pipe_stdin=params.pipe_stdin,
        rows=params.rows,
        cols=params.cols,
        arg0=params.arg0,
    )
