"""ProcessActor: one child of a session, from its start to the end of the last thing it left.

What a client sees without asking leaves as one ordered stream to the router: the answer to start, then output, exited
and closed in rising seq without a hole, and the replays of observers in between. Answers to other requests go straight
to the bridge that asked.
"""

from __future__ import annotations

import errno
import signal
import time
from typing import Any, ClassVar, Final

import msgspec
from thespian.actors import ActorExitRequest, ThespianWatch, WatchMessage

from actors.base.actor import BaseActor, Part, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    BridgeDetached,
    Call,
    Drain,
    Failure,
    FlushWaits,
    Forget,
    Forgotten,
    ProcessStarted,
    StartFailed,
    StartProcess,
)
from actors.process import child_poller
from actors.process.ending import Ending
from actors.process.long_polls import LongPolls
from actors.process.output import Output
from actors.process.publisher import Publisher
from actors.process.read_coalescer import ReadCoalescer
from actors.process.requests import Requests
from actors.process.run import Run, State
from actors.process.spawn_request import recording_of, spawn_request
from actors.system.child import Child
from actors.system.launch import launch_at_once, launch_soon
from protocol.errors import ExecServerError, InternalError, SpawnError
from protocol.process import ExitReason, ProcessStartResult

JOBS_CHECK_S: Final = 30.0
"""How often a forgotten process looks whether its background jobs still run, in seconds."""


class CloseStreams(msgspec.Struct, frozen=True, gc=False):
    """To oneself at `closed`: the watch is gone by now, so the number of its descriptor may be reused."""


class ProcessActor(BaseActor):
    """One child process. Its states are those of `run.State`; nothing but this class changes them."""

    opens_with = StartProcess
    parts: ClassVar[dict[str, type[Part]]] = {"_requests": Requests, "_output": Output}

    _run: Run
    _publisher: Publisher
    _requests: Requests
    _output: Output
    _coalescer: ReadCoalescer
    _ending: Ending

    def __init__(self) -> None:
        super().__init__()
        self._watch: ThespianWatch | None = None

    def watch(self) -> ThespianWatch | None:
        return None if self._watch is None or self._coalescer.resting else self._watch

    def about(self) -> dict[str, Any]:
        return about(self._run.start.session_id, self._run.process_id)

    # -- start ----------------------------------------------------------------------------------------------------

    def receiveMsg_StartProcess(self, message: StartProcess, session: Address) -> None:
        run = self._run = Run(message, session, self.send)
        polls = LongPolls(self.deadlines, lambda poll: self._requests.poll_is_over(poll))
        self._publisher = Publisher(run, polls, self.send)
        self._ending = Ending(self, run)
        self._output = Output(self, run, self._publisher, self._close_if_done, self._ending.resumed)
        self._coalescer = self._output.coalescer
        self._requests = Requests(self, run, polls, self._output, self._ending)
        try:
            if message.refusal is not None:
                raise message.refusal
            self._begin()
        except ExecServerError as error:
            self._fail_start(error)
        except OSError as error:
            self._fail_start(SpawnError.from_errno(error.errno or errno.EIO, "descriptors"))

    def _begin(self) -> None:
        run = self._run
        request = spawn_request(run.start.params, run.start.cwd, run.start.session_id)
        run.size = request.rows, request.cols
        recording = run.recording = recording_of(run.start, request)
        run.poller.open()
        if recording is not None and run.settings.record_input:
            run.input.on_written = recording.input
        self._watch = ThespianWatch([run.poller.fileno()])
        self._output.apply_pause()
        try:
            child = launch_at_once(request) if recording is None else None
            if child is None:
                run.poller.await_spawn(launch_soon(request, None if recording is None else recording.open))
            else:
                run.poller.watch_child(child)
        except SpawnError:
            self._close_streams_later()
            raise
        if child is not None:
            self._spawned(child)

    def _take_child(self) -> None:
        try:
            child = self._run.poller.take_child()
        except ExecServerError as error:
            self._close_streams_later()
            self._fail_start(error)
            return
        self._spawned(child)

    def _spawned(self, child: Child) -> None:
        run, start = self._run, self._run.start
        run.started(child)
        # Clients know no name for bubblewrap; upstream calls what it makes with it so.
        sandbox = "linuxSeccomp" if run.sandboxed else "none"
        result = ProcessStartResult(process_id=run.process_id, sandbox_type=sandbox)
        started = ProcessStarted(
            start.session_id, start.bridge, start.token, result, child.pid, int(time.time() * 1000)
        )
        self.send(start.router, started)
        self.send(run.session, started)
        self._publisher.started()
        self._ending.started()
        self.unstash()

    def _fail_start(self, error: ExecServerError) -> None:
        run, start = self._run, self._run.start
        run.state = State.FAILED
        self.send(run.session, StartFailed(run.process_id, start.token, start.bridge, error))
        self.unstash()

    # -- what the child does --------------------------------------------------------------------------------------

    def receiveMsg_WatchMessage(self, message: WatchMessage, sender: Address) -> None:
        if self._watch is None:
            return
        for name in self._run.poller.ready():
            if name == child_poller.SPAWN:
                self._take_child()
            elif name == child_poller.EXIT:
                self._exited()
            elif name == child_poller.STDIN:
                self._run.input.push()
            else:
                self._output.take_ready(name)

    def _exited(self) -> None:
        run, child = self._run, self._run.child
        assert child is not None
        run.state = State.EXITED
        run.poller.unpark()
        if not run.poller.held:
            self._output.drain()
        run.poller.forget_exit(child)
        status = child.reap()
        run.input.close()
        self._ending.exited()
        self._publisher.tell(run.history.exited(status.code, status.signal, run.reason))
        wait_ms = run.start.params.closed_after_exit_ms
        if wait_ms is not None and run.poller.outputs:
            self.deadlines.set("closed", wait_ms / 1000, self._output.abandon)
        self._close_if_done()
        self._output.give_up_paused()

    def _close_if_done(self) -> None:
        run = self._run
        if run.history.exit is None or run.state is not State.EXITED or run.poller.outputs:
            return
        run.state = State.CLOSED
        run.close_recording()
        self._publisher.tell(run.history.closed())
        self._close_streams_later()

    def _close_streams_later(self) -> None:
        self._watch = None
        self.send(self.myAddress, CloseStreams())

    def receiveMsg_CloseStreams(self, message: CloseStreams, sender: Address) -> None:
        self._run.poller.close()

    # -- bridges --------------------------------------------------------------------------------------------------

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, sender: Address) -> None:
        run = self._run
        if run.state is State.STARTING:
            self.stash(message, sender)
            return
        self._requests.drop(message.bridge)
        self._output.leave(message.bridge)
        if run.start.params.on_disconnect == "terminate" and message.of_owner and run.state is State.RUNNING:
            self._ending.end("terminated", 0.0)

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        if self._run.state is State.STARTING:
            self.stash(message, sender)
        else:
            self._requests.flush(message.bridge)

    # -- the end --------------------------------------------------------------------------------------------------

    def receiveMsg_Drain(self, message: Drain, session: Address) -> None:
        if message.end_within is not None:
            self._output.server_ends()
            self._ending.end("sessionEnded", message.end_within)

    def receiveMsg_Forget(self, message: Forget, sender: Address) -> None:
        self._run.forget()
        self._requests.close_screen()
        self._end_if_forgotten()

    def _end_if_forgotten(self) -> None:
        """Background jobs live as long as their session, and with them this actor, which can attribute them."""
        run = self._run
        if run.child is not None and run.child.has_descendants():
            self.deadlines.set("jobs", JOBS_CHECK_S, self._end_if_forgotten)
        else:
            self.send(run.session, Forgotten())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._run.session = None
        try:
            if self._run.state in (State.RUNNING, State.EXITED):
                self._tell_end("sessionEnded")
        finally:
            self._let_go()
            self._requests.close_screen()
            self._run.forget()  # what is left of the actor is garbage in cycles, which may lie about for long

    def _let_go(self) -> None:
        """End the child, if there is one, with all its descendants, and close everything."""
        run = self._run
        self._watch = None
        run.close_recording()
        child, run.child = run.child, None
        if child is not None:
            # First: at the end of its input, or a hangup, it would exit, and leave descendants that nobody can find.
            child.kill_tree()
        run.input.close()
        run.poller.close()
        if child is not None:
            child.release()

    def _tell_end(self, reason: ExitReason) -> None:
        """The last events of a child that is killed without waiting for its exit."""
        history = self._run.history
        if history.exit is None:
            self._publisher.tell(history.exited(128 + signal.SIGKILL, signal.SIGKILL, reason))
        self._publisher.tell(history.closed())

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """Answer who asked; if the child was at fault, end it, so that nobody waits for ever."""
        run = self._run
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        elif isinstance(message, (StartProcess, WatchMessage)) and run.state is State.STARTING:
            self._fail_start(InternalError(f"the start failed inside the server: {error}"))
            self._let_go()
        elif run.state in (State.RUNNING, State.EXITED):
            log.error("the process is ended after a fault of the server", extra=self.about())
            try:
                self._tell_end("terminated")
            except Exception:
                # What is at fault is what numbers the events: the router tells the last ones of an actor that is gone.
                self.send(self.myAddress, ActorExitRequest())
                raise
            finally:
                self._let_go()
                run.state = State.CLOSED
