"""ProcessActor: one child, its record, its stdin queue, its exit.

What a client sees without asking leaves as one ordered stream to the router: the answer to start, then output, exited
and closed in rising seq without a hole, and the replays of observers in between. Answers to other requests go straight
to the bridge that asked.
"""

from __future__ import annotations

import enum
import errno
import signal
import time
from collections.abc import Callable
from typing import Any, ClassVar, cast

import msgspec
from thespian.actors import ActorExitRequest, ThespianWatch, WakeupMessage, WatchMessage

from actors.base.deadlines import Deadlines
from actors.base.guarded import GuardedActor, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Answer,
    BridgeDetached,
    Call,
    EndGently,
    Failure,
    FlushWaits,
    Forget,
    Forgotten,
    HoldOutput,
    Observe,
    OutputReleased,
    ProcessEnded,
    ProcessEvent,
    ProcessExits,
    ProcessRuns,
    ProcessStarted,
    ReleaseOutput,
    Replay,
    RetainedBytes,
    StartFailed,
    StartProcess,
)
from actors.base.settings import MAX_WAIT_S, Settings
from actors.process import child_poller
from actors.process.child_input import ChildInput
from actors.process.child_poller import ChildPoller
from actors.process.history import ProcessHistory
from actors.process.long_polls import LongPoll, LongPolls
from actors.process.read_coalescer import ReadCoalescer
from actors.process.recording import Recording
from actors.process.screen import Screen
from actors.process.spawn_request import recording_of, spawn_request
from actors.process.stdin import Write
from actors.process.time_limits import IdleTimer
from actors.system.child import Child
from actors.system.launch import launch_at_once, launch_soon
from protocol.errors import ExecServerError, InternalError, InvalidParams, SpawnError
from protocol.process import (
    ExitReason,
    ProcessClosed,
    ProcessCloseStdinParams,
    ProcessExited,
    ProcessFlowParams,
    ProcessOutput,
    ProcessReadParams,
    ProcessResizeParams,
    ProcessScreenParams,
    ProcessSignalParams,
    ProcessSnapshotParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWaitParams,
    ProcessWriteParams,
    Stream,
)
from protocol.requests import ProcessRequest
from protocol.sandbox import to_enforce
from protocol.wire_types import Empty, WireStruct

DRAINED_AT_EXIT = 1 << 20
"""Bytes of a stream that are read before `exited` is sent, so that a short command's output comes before its exit."""
JOBS_CHECK_S = 30.0
"""How often a forgotten process looks whether its background jobs still run, in seconds."""
TERMINAL_RETRY_S = 0.5
"""How often a terminal that nobody has open is looked at again while its child lives, in seconds."""
GRACEFUL_S = 5.0
"""Between SIGTERM and SIGKILL of a graceful terminate that says nothing else, in seconds."""
RETAINS_STEP = 256 * 1024
"""After how many more bytes of output the router is told what is kept of it, until the record is full."""
EVICTED_STEP = 16 << 20
"""After how many more it is told what had to go, then."""
TIME_LIMIT_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when a time limit is reached, in seconds."""


class State(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"  # the child is reaped; a stream is still open
    CLOSED = "closed"  # nothing but retained bytes is left
    FAILED = "failed"  # there never was a child


class CloseStreams(msgspec.Struct, frozen=True, gc=False):
    """To oneself at `closed`: the watch is gone by now, so the number of its descriptor may be reused."""


class ProcessActor(GuardedActor):
    """One child process of a session."""

    _start: StartProcess
    _settings: Settings
    _streams: ChildPoller
    _record: ProcessHistory
    _input: ChildInput
    _connection: Address

    def __init__(self) -> None:
        super().__init__()
        self._state = State.STARTING
        self._watch: ThespianWatch | None = None
        self._child: Child | None = None
        self._deferred: list[Call | FlushWaits | Observe | BridgeDetached] = []
        self._lull = ReadCoalescer()
        self._deadlines = Deadlines(self.wakeupAfter)
        self._waits = LongPolls(self._deadlines)
        self._idle: IdleTimer | None = None
        self._recording: Recording | None = None
        self._screen: Screen | None = None
        self._size = (24, 80)
        self._reason: ExitReason | None = None
        self._end_at_start: float | None = None
        self._held_for_session = False
        self._held_by: Address = None
        self._abandon_when_released = False
        self._server_ends = False
        self._tell_retained_at = RETAINS_STEP
        self._evicted_told = 0

    def watch(self) -> ThespianWatch | None:
        return None if self._lull.resting else self._watch

    def about(self) -> dict[str, Any]:
        return about(self._start.session_id, self._process_id) if hasattr(self, "_start") else {}

    # -- start ----------------------------------------------------------------------------------------------------

    def receiveMsg_StartProcess(self, message: StartProcess, connection: Address) -> None:
        self._connection = connection
        self._start = message
        settings = self._settings = message.settings
        self._record = ProcessHistory(self._process_id, settings.retained_output, settings.retain_head, self._sandboxed)
        try:
            self._begin(message)
        except ExecServerError as error:
            self._fail_start(error)
        except OSError as error:
            self._fail_start(SpawnError.from_errno(error.errno or errno.EIO, "descriptors"))

    def _begin(self, message: StartProcess) -> None:
        request = spawn_request(message.params, message.cwd, message.session_id)
        self._size = request.rows, request.cols
        recording = self._recording = recording_of(message, request)
        self._streams = ChildPoller()
        self._input = ChildInput(self._streams, self._settings.stdin_queue, self.send)
        if recording is not None and self._settings.record_input:
            self._input.on_written = recording.input
        self._watch = ThespianWatch([self._streams.fileno()])
        self._held_for_session = message.held
        self._apply_hold()
        try:
            child = launch_at_once(request) if recording is None else None
            if child is None:
                self._streams.await_spawn(launch_soon(request, None if recording is None else recording.open))
            else:
                self._streams.watch_child(child)
        except SpawnError:
            self._close_streams_later()
            raise
        if child is not None:
            self._spawned(child)

    @property
    def _process_id(self) -> str:
        return self._start.params.process_id

    @property
    def _sandboxed(self) -> bool:
        return to_enforce(self._start.params.sandbox) is not None

    def _take_child(self) -> None:
        try:
            child = self._streams.take_child()
        except ExecServerError as error:
            self._close_streams_later()
            self._fail_start(error)
            return
        self._spawned(child)

    def _spawned(self, child: Child) -> None:
        start = self._start
        self._child = child
        self._state = State.RUNNING
        # Clients know no name for bubblewrap; upstream calls what it makes with it so.
        sandbox = "linuxSeccomp" if self._sandboxed else "none"
        result = ProcessStartResult(process_id=self._process_id, sandbox_type=sandbox)
        self.send(start.router, ProcessStarted(start.session_id, start.bridge, start.token, result))
        self.send(self._connection, ProcessRuns(self._process_id, child.pid, int(time.time() * 1000)))
        self._set_time_limits()
        if self._end_at_start is not None:
            self._end(self._reason or "terminated", self._end_at_start)
        self._answer_deferred()

    def _set_time_limits(self) -> None:
        params = self._start.params
        if params.timeout_ms is not None:
            self._deadlines.set("timeout", params.timeout_ms / 1000)
        if params.idle_timeout_ms is not None:
            self._idle = IdleTimer(params.idle_timeout_ms / 1000)
            if self._streams.held:
                self._idle.hold()
            self._watch_idle()

    def _fail_start(self, error: ExecServerError) -> None:
        start = self._start
        self._state = State.FAILED
        self.send(self._connection, StartFailed(self._process_id, start.token, start.bridge, error))
        self._answer_deferred()

    def _answer_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for message in deferred:
            match message:
                case Call():
                    self.receiveMsg_Call(message, None)
                case FlushWaits():
                    self._end_waits(message.bridge)
                case Observe():
                    self.receiveMsg_Observe(message, None)
                case BridgeDetached():
                    self._drop_requests(message.bridge)

    # -- requests -------------------------------------------------------------------------------------------------

    def receiveMsg_Call(self, call: Call, sender: Address) -> None:
        if self._state is State.STARTING and not isinstance(call.params, ProcessTerminateParams):
            self._deferred.append(call)
            return
        try:
            answer = self._answer(call)
        except ExecServerError as error:
            self.send(call.bridge, Failure(call.token, error))
            return
        if answer is not None:
            self.send(call.bridge, Answer(call.token, answer))

    def _answer(self, call: Call) -> WireStruct | None:
        """The answer, or None where it comes later. Raises ExecServerError."""
        params = call.params
        method = self._requests.get(params.METHOD)
        if method is None or not isinstance(params, ProcessRequest):
            raise InternalError(f"a process cannot answer {params.METHOD}")
        if self._state is State.FAILED:
            return params.result_without_process()
        return method(self, call, params)

    def _read(self, call: Call, params: ProcessReadParams) -> WireStruct | None:
        if not params.wait_ms:
            return self._record.read(params)
        answer = self._record.news(params)
        if answer is None:
            self._waits.add(LongPoll(call.token, call.bridge, params), params.wait_ms / 1000)
        return answer

    def _wait(self, call: Call, params: ProcessWaitParams) -> WireStruct | None:
        if self._record.exit is not None or params.wait_ms == 0:
            return self._record.wait()
        seconds = MAX_WAIT_S if params.wait_ms is None else params.wait_ms / 1000
        self._waits.add(LongPoll(call.token, call.bridge, params), seconds)
        return None

    def _snapshot(self, call: Call, params: ProcessSnapshotParams) -> WireStruct:
        return self._record.snapshot()

    def _show_screen(self, call: Call, params: ProcessScreenParams) -> WireStruct | None:
        start = self._start.params
        if not start.tty:
            raise InvalidParams(f"process {self._process_id} has no terminal", {"kind": "notATerminal"})
        if self._screen is None:
            self._screen = Screen(*self._size)

        def done(answer: WireStruct | ExecServerError) -> None:
            # In the renderer's thread: an actor may send from any thread of the engine.
            if isinstance(answer, ExecServerError):
                self.send(call.bridge, Failure(call.token, answer))
            else:
                self.send(call.bridge, Answer(call.token, answer))

        self._screen.render(self._record, done)
        return None

    def _signal(self, call: Call, params: ProcessSignalParams) -> WireStruct:
        if self._state is State.RUNNING and self._child is not None:
            self._child.signal_group(params.number)
        return Empty()

    def _resize(self, call: Call, params: ProcessResizeParams) -> WireStruct:
        if not self._start.params.tty:
            raise InvalidParams(f"process {self._process_id} has no terminal to resize")
        if self._child is not None and self._child.master is not None:
            self._child.resize(params.rows, params.cols)
            self._size = params.rows, params.cols
            if self._recording is not None:
                self._recording.resize(params.rows, params.cols)
            if self._screen is not None:
                self._screen.resize(self._record, params.rows, params.cols)
        return Empty()

    def _flow(self, call: Call, params: ProcessFlowParams) -> WireStruct:
        self._held_by = call.bridge if params.paused else None
        self._apply_hold()
        return Empty()

    def _terminate(self, call: Call, params: ProcessTerminateParams) -> WireStruct:
        grace_s = 0.0
        if params.mode == "graceful":
            grace_s = GRACEFUL_S if params.timeout_ms is None else params.timeout_ms / 1000
        if self._state is State.STARTING:
            self._reason = "terminated"
            self._end_at_start = grace_s
        elif self._state is State.RUNNING:
            self._end("terminated", grace_s)
        elif self._state is State.EXITED:
            self._kill()
        return ProcessTerminateResult(running=self._state in (State.STARTING, State.RUNNING))

    # -- input ----------------------------------------------------------------------------------------------------

    def _write(self, call: Call, params: ProcessWriteParams) -> WireStruct | None:
        if self._state is not State.RUNNING or not self._input.open:
            return self._input.result("accepted" if self._input.has_taken(params.write_id) else "stdinClosed")
        self._stir()
        self._input.offer(Write(call.token, call.bridge, params.write_id, params.chunk, params.offset))
        return None

    def _close_stdin(self, call: Call, params: ProcessCloseStdinParams) -> WireStruct | None:
        if self._state is not State.RUNNING or not self._input.open:
            return self._input.result("stdinClosed")
        end_of_file = None
        if self._start.params.tty:
            # A terminal has no end of input but what its line discipline makes of VEOF; raw mode makes nothing of it.
            assert self._child is not None
            end_of_file = self._child.eof_char()
        self._stir()
        self._input.offer(Write(call.token, call.bridge, None, end_of_file))
        return None

    # -- what the child does --------------------------------------------------------------------------------------

    def receiveMsg_WatchMessage(self, message: WatchMessage, sender: Address) -> None:
        if self._watch is None:
            return
        for name in self._streams.ready():
            if name == child_poller.SPAWN:
                self._take_child()
            elif name == child_poller.EXIT:
                self._exited()
            elif name == child_poller.STDIN:
                self._input.push()
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
            self._deadlines.set("lull", self._lull.rest_s)
        if self._idle is not None:
            self._idle.stir()
        if self._recording is not None:
            self._recording.output(data)
        self._tell(self._record.output(name, data))
        if self._record.total_charged >= self._tell_retained_at:
            self._tell_retained()
        return len(data)

    def _tell_retained(self) -> None:
        """Tell what the record holds. Once it is full that changes little, until the end."""
        record, capacity, start = self._record, self._settings.retained_output, self._start
        total = record.total_charged
        self._tell_retained_at = total + EVICTED_STEP if total >= capacity else min(total + RETAINS_STEP, capacity)
        retained, evicted = record.retained_bytes, self._evicted_since()
        self.send(start.router, RetainedBytes(start.session_id, self._process_id, retained, evicted))

    def _evicted_since(self) -> int:
        """Bytes that had to go since this was asked last."""
        before, self._evicted_told = self._evicted_told, self._record.evicted_bytes
        return self._evicted_told - before

    def _tell(self, event: ProcessOutput | ProcessExited | ProcessClosed) -> None:
        """The next event, to everybody who listens or waits."""
        start = self._start
        if type(event) is ProcessClosed:
            retained, evicted = self._record.retained_bytes, self._evicted_since()
            self.send(start.router, ProcessEvent(start.session_id, event, retained, evicted))
        else:
            self.send(start.router, ProcessEvent(start.session_id, event))
        if self._waits:
            for waiter, answer in self._waits.take_ready(self._record.answer):
                self.send(waiter.bridge, Answer(waiter.token, answer))

    def _output_ended(self, name: Stream) -> None:
        if name == "pty" and self._state is State.RUNNING:
            self._streams.park()
            self._deadlines.set("terminal", TERMINAL_RETRY_S)
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
        self._input.close()
        for key in ("timeout", "idle"):
            self._deadlines.cancel(key)
        exit = self._record.exited(status.code, status.signal, self._reason)
        self._tell(exit)
        self.send(self._connection, ProcessExits(self._process_id, exit.exit_code, exit.signal, exit.reason))
        wait_ms = self._start.params.closed_after_exit_ms
        if wait_ms is not None and self._streams.outputs:
            self._deadlines.set("closed", wait_ms / 1000)
        self._close_if_done()
        self._give_up_held()

    def _drain(self) -> None:
        for name in self._streams.outputs:
            taken = 0
            while taken < DRAINED_AT_EXIT and name in self._streams.outputs and (count := self._take_output(name)):
                taken += count

    def _close_if_done(self) -> None:
        if self._record.exit is None or self._state is not State.EXITED or self._streams.outputs:
            return
        self._state = State.CLOSED
        self._close_recording()
        self._tell(self._record.closed())
        self._close_streams_later()
        self.send(self._connection, ProcessEnded(self._process_id))

    def _close_recording(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()

    def _close_streams_later(self) -> None:
        self._watch = None
        self.send(self.myAddress, CloseStreams())

    def receiveMsg_CloseStreams(self, message: CloseStreams, sender: Address) -> None:
        self._streams.close()

    # -- time -----------------------------------------------------------------------------------------------------

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for key in self._deadlines.due(message.payload):
            match key:
                case "lull":
                    self._lull.end()
                case "terminal":
                    self._streams.unpark()
                    self._input.push()
                case "kill":
                    self._kill()
                case "timeout":
                    self._end("timeout", TIME_LIMIT_GRACE_S)
                case "idle":
                    self._watch_idle()
                case "jobs":
                    self._end_if_forgotten()
                case "closed":
                    self._abandon_outputs()
                case _:
                    self._wait_is_over(cast(tuple[str, int], key)[1])

    def _wait_is_over(self, serial: int) -> None:
        waiter = self._waits.take_due(serial)
        if waiter is not None:
            self.send(waiter.bridge, Answer(waiter.token, self._record.answer_anyway(waiter)))

    def _watch_idle(self) -> None:
        """End a child that has been silent for too long, or look again when that may be."""
        if self._idle is None or self._state is not State.RUNNING:
            return
        remaining = self._idle.remaining()
        if remaining == 0.0:
            self._end("idleTimeout", TIME_LIMIT_GRACE_S)
        elif remaining is not None:
            self._deadlines.set("idle", remaining)

    def _abandon_outputs(self) -> None:
        """The exit was long enough ago: take what is there, and wait no longer for who holds the streams open."""
        if self._state is not State.EXITED:
            return
        if self._streams.held:
            self._abandon_when_released = True
            return
        self._close_outputs()

    def _close_outputs(self) -> None:
        self._drain()
        self._streams.close_streams()
        self._close_if_done()

    def _give_up_held(self) -> None:
        """While the server ends, nobody is waited for who does not take the output: what is there goes out, no more."""
        if self._server_ends and self._state is State.EXITED and self._streams.held:
            self._close_outputs()

    def _stir(self) -> None:
        """Somebody writes to the child, and waits for the echo."""
        self._lull.stir()
        if self._idle is not None:
            self._idle.stir()

    # -- flow and bridges -----------------------------------------------------------------------------------------

    def receiveMsg_HoldOutput(self, message: HoldOutput, sender: Address) -> None:
        self._held_for_session = True
        self._apply_hold()

    def receiveMsg_ReleaseOutput(self, message: ReleaseOutput, sender: Address) -> None:
        self._held_for_session = False
        self._apply_hold()
        self.send(self._connection, OutputReleased(self._process_id))

    def _apply_hold(self) -> None:
        """Read output, or leave it in the kernel, as the session's flow and the owner want it."""
        if self._watch is None:
            return
        if self._held_for_session or self._held_by is not None:
            self._streams.hold()
            if self._idle is not None:
                self._idle.hold()
            self._give_up_held()
        elif self._streams.held:
            self._streams.release()
            if self._idle is not None:
                self._idle.release()
                self._watch_idle()
            if self._state in (State.RUNNING, State.EXITED):
                for name in self._streams.outputs:
                    self._take_output(name)
            if self._abandon_when_released:
                self._abandon_outputs()

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, sender: Address) -> None:
        if self._state is State.STARTING:
            self._deferred.append(message)
        else:
            self._drop_requests(message.bridge)
        if self._start.params.on_disconnect == "terminate" and message.of_owner:
            if self._state is State.STARTING:
                self._reason, self._end_at_start = "terminated", 0.0
            else:
                self._end("terminated", 0.0)

    def _drop_requests(self, bridge: Address) -> None:
        """Nobody waits for the answers of this bridge any more, and it holds no output back."""
        self._waits.take_of(bridge)
        if self._state is not State.FAILED:
            self._input.withdraw(bridge)
        if self._held_by == bridge:
            self._held_by = None
            self._apply_hold()

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        if self._state is State.STARTING:
            self._deferred.append(message)
        else:
            self._end_waits(message.bridge)

    def _end_waits(self, bridge: Address) -> None:
        for waiter in self._waits.take_of(bridge):
            self.send(waiter.bridge, Answer(waiter.token, self._record.answer_anyway(waiter)))
        if self._state is State.FAILED:
            return
        for write in self._input.withdraw(bridge):
            error = InternalError("the connection's input ended before standard input had room for this write")
            self.send(write.bridge, Failure(write.token, error))

    def receiveMsg_Observe(self, message: Observe, sender: Address) -> None:
        if self._state is State.STARTING:
            self._deferred.append(message)
        elif self._state is State.FAILED:
            self.send(self._start.router, Replay(self._start.session_id, self._process_id, message, None, 0))
        else:
            self._replay(message)

    def _replay(self, observe: Observe) -> None:
        events, fault = None, None
        try:
            events = self._record.replay(observe.after_seq, observe.after_offset)
        except InvalidParams as error:
            fault = error
        next_seq = self._record.next_seq
        self.send(
            self._start.router, Replay(self._start.session_id, self._process_id, observe, events, next_seq, fault)
        )

    # -- the end --------------------------------------------------------------------------------------------------

    def _end(self, reason: ExitReason, grace_s: float) -> None:
        """End the child: at once, or by SIGTERM now and SIGKILL after `grace_s`. The first reason holds."""
        child = self._child
        if self._state is not State.RUNNING or child is None:
            return
        self._reason = self._reason or reason
        if not grace_s:
            self._kill()
            return
        child.signal_group(signal.SIGTERM)
        if self._start.params.tty:
            child.signal_group(signal.SIGHUP)  # interactive shells ignore SIGTERM
        child.signal_group(signal.SIGCONT)  # a stopped process acts on neither before it goes on
        self._deadlines.set("kill", grace_s)

    def receiveMsg_EndGently(self, message: EndGently, connection: Address) -> None:
        self._server_ends = True
        if self._state is State.STARTING:
            self._reason, self._end_at_start = self._reason or "sessionEnded", message.seconds
        elif self._state is State.EXITED:
            self._kill()  # whatever keeps its output open
            self._give_up_held()
        self._end("sessionEnded", message.seconds)

    def _kill(self) -> None:
        """Kill the child and its descendants, or what it left behind."""
        if self._child is not None:
            self._child.kill_tree()

    def receiveMsg_Forget(self, message: Forget, sender: Address) -> None:
        self._record = ProcessHistory(self._process_id, 0, 0)
        self._end_if_forgotten()

    def _end_if_forgotten(self) -> None:
        """Background jobs live as long as their session, and with them this actor, which can attribute them."""
        if self._child is not None and self._child.has_descendants():
            self._deadlines.set("jobs", JOBS_CHECK_S)
        else:
            self.send(self._connection, Forgotten())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        try:
            if self._state in (State.RUNNING, State.EXITED):
                self._tell_end("sessionEnded")
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """End the child, if there is one, with all its descendants, and close everything."""
        self._watch = None
        self._close_recording()
        child, self._child = self._child, None
        if child is not None:
            # First: at the end of its input, or a hangup, it would exit, and leave descendants that nobody can find.
            child.kill_tree()
        if hasattr(self, "_input"):
            self._input.close()
        if hasattr(self, "_streams"):
            self._streams.close()
        if child is not None:
            child.release()

    def _tell_end(self, reason: ExitReason) -> None:
        """The last events of a child that is killed without waiting for its exit."""
        if self._record.exit is None:
            self._tell(self._record.exited(128 + signal.SIGKILL, signal.SIGKILL, reason))
        self._tell(self._record.closed())

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """Answer who asked; if the child was at fault, end it, so that nobody waits for ever."""
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        elif isinstance(message, (StartProcess, WatchMessage)) and self._state is State.STARTING:
            self._fail_start(InternalError(f"the start failed inside the server: {error}"))
            self._let_go()
        elif self._state in (State.RUNNING, State.EXITED):
            log.error("the process is ended after a fault of the server", extra=self.about())
            self._state = State.CLOSED
            try:
                self._tell_end("terminated")
                self.send(self._connection, ProcessEnded(self._process_id))
            except Exception:
                # What is at fault is what numbers the events: the router tells the last ones of an actor that is gone.
                self.send(self.myAddress, ActorExitRequest())
                raise
            finally:
                self._let_go()

    _requests: ClassVar[dict[str, Callable[[Any, Call, Any], WireStruct | None]]] = {
        ProcessReadParams.METHOD: _read,
        ProcessWriteParams.METHOD: _write,
        ProcessCloseStdinParams.METHOD: _close_stdin,
        ProcessWaitParams.METHOD: _wait,
        ProcessSnapshotParams.METHOD: _snapshot,
        ProcessScreenParams.METHOD: _show_screen,
        ProcessSignalParams.METHOD: _signal,
        ProcessResizeParams.METHOD: _resize,
        ProcessFlowParams.METHOD: _flow,
        ProcessTerminateParams.METHOD: _terminate,
    }
