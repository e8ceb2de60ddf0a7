"""Requests: the part of a ProcessActor that answers what clients ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from actors.base.actor import BaseActor, Part
from actors.base.messages import Address, Answer, Call, Failure, Observe, Replay
from actors.base.settings import MAX_WAIT_S
from actors.process.ending import Ending
from actors.process.long_polls import LongPoll, LongPolls
from actors.process.output import Output
from actors.process.run import Run, State
from actors.process.screen import Screen
from actors.process.stdin import Write
from protocol.errors import ExecServerError, InternalError, InvalidParams
from protocol.process import (
    ProcessCloseStdinParams,
    ProcessFlowParams,
    ProcessReadParams,
    ProcessResizeParams,
    ProcessScreenParams,
    ProcessSignalParams,
    ProcessSnapshotParams,
    ProcessTerminateParams,
    ProcessWaitParams,
    ProcessWriteParams,
)
from protocol.requests import ProcessRequest
from protocol.wire_types import Empty, WireStruct

Result = WireStruct | None
"""The answer to a request; None where it comes later."""


class Requests(Part):
    """Answers each request once, straight to the bridge that asked.

    What comes while the child is being spawned waits for that, but for the wish to end it.
    """

    def __init__(self, actor: BaseActor, run: Run, polls: LongPolls, output: Output, ending: Ending) -> None:
        super().__init__(actor)
        self._run = run
        self._polls = polls
        self._output = output
        self._ending = ending
        self._screen: Screen | None = None

    def receiveMsg_Call(self, call: Call, sender: Address) -> None:
        if self._run.state is State.STARTING and not isinstance(call.params, ProcessTerminateParams):
            self.actor.stash(call, sender)
            return
        try:
            answer = self._answer(call)
        except ExecServerError as error:
            self.send(call.bridge, Failure(call.token, error))
            return
        if answer is not None:
            self.send(call.bridge, Answer(call.token, answer))

    def receiveMsg_Observe(self, message: Observe, sender: Address) -> None:
        """Tell the router what an observer missed, in the order of the events."""
        run, start = self._run, self._run.start
        if run.state is State.STARTING:
            self.actor.stash(message, sender)
            return
        if run.state is State.FAILED:
            self.send(start.router, Replay(start.session_id, run.process_id, message, None, 0))
            return
        events, fault = None, None
        try:
            events = run.history.replay(message.after_seq, message.after_offset)
        except InvalidParams as error:
            fault = error
        replay = Replay(start.session_id, run.process_id, message, events, run.history.next_seq, fault)
        self.send(start.router, replay)

    def poll_is_over(self, poll: LongPoll) -> None:
        """A request has waited for as long as it wanted."""
        self.send(poll.bridge, Answer(poll.token, self._run.history.answer_anyway(poll)))

    def drop(self, bridge: Address) -> None:
        """Nobody waits for the answers of this bridge any more."""
        self._polls.take_of(bridge)
        self._run.input.withdraw(bridge)

    def close_screen(self) -> None:
        """Nobody asks for the screen any more."""
        if self._screen is not None:
            self._screen.close()

    def flush(self, bridge: Address) -> None:
        """Answer what this bridge waits for, with what there is."""
        for poll in self._polls.take_of(bridge):
            self.poll_is_over(poll)
        for write in self._run.input.withdraw(bridge):
            error = InternalError("the connection's input ended before standard input had room for this write")
            self.send(write.bridge, Failure(write.token, error))

    # -- the answers ----------------------------------------------------------------------------------------------

    def _answer(self, call: Call) -> Result:
        """Raises ExecServerError."""
        params = call.params
        method = self._methods.get(params.METHOD)
        if method is None or not isinstance(params, ProcessRequest):
            raise InternalError(f"a process cannot answer {params.METHOD}")
        if self._run.state is State.FAILED:
            return params.result_without_process()
        return method(self, call, params)

    def _read(self, call: Call, params: ProcessReadParams) -> Result:
        if not params.wait_ms:
            return self._run.history.read(params)
        answer = self._run.history.news(params)
        if answer is None:
            self._polls.add(LongPoll(call.token, call.bridge, params), params.wait_ms / 1000)
        return answer

    def _wait(self, call: Call, params: ProcessWaitParams) -> Result:
        if self._run.history.exit is not None or params.wait_ms == 0:
            return self._run.history.wait()
        seconds = MAX_WAIT_S if params.wait_ms is None else params.wait_ms / 1000
        self._polls.add(LongPoll(call.token, call.bridge, params), seconds)
        return None

    def _snapshot(self, call: Call, params: ProcessSnapshotParams) -> Result:
        return self._run.history.snapshot()

    def _show_screen(self, call: Call, params: ProcessScreenParams) -> Result:
        if not self._run.start.params.tty:
            raise InvalidParams(f"process {self._run.process_id} has no terminal", {"kind": "notATerminal"})
        if self._screen is None:
            self._screen = Screen(self._run.start.session_id, *self._run.size)

        def done(answer: WireStruct | ExecServerError) -> None:
            # In the renderer's thread: an actor may send from any thread of the engine.
            if isinstance(answer, ExecServerError):
                self.send(call.bridge, Failure(call.token, answer))
            else:
                self.send(call.bridge, Answer(call.token, answer))

        self._screen.render(self._run.history, done)
        return None

    def _signal(self, call: Call, params: ProcessSignalParams) -> Result:
        run = self._run
        if run.state is State.RUNNING and run.child is not None:
            run.child.signal_group(params.number)
        return Empty()

    def _resize(self, call: Call, params: ProcessResizeParams) -> Result:
        run = self._run
        if not run.start.params.tty:
            raise InvalidParams(f"process {run.process_id} has no terminal to resize")
        if run.child is not None and run.child.master is not None:
            run.child.resize(params.rows, params.cols)
            run.size = params.rows, params.cols
            if run.recording is not None:
                run.recording.resize(params.rows, params.cols)
            if self._screen is not None:
                self._screen.resize(run.history, params.rows, params.cols)
        return Empty()

    def _flow(self, call: Call, params: ProcessFlowParams) -> Result:
        self._output.pause_by(call.bridge if params.paused else None)
        return Empty()

    def _terminate(self, call: Call, params: ProcessTerminateParams) -> Result:
        return self._ending.terminate(params)

    def _write(self, call: Call, params: ProcessWriteParams) -> Result:
        run = self._run
        if run.state is not State.RUNNING or not run.input.open:
            return run.input.result("accepted" if run.input.has_taken(params.write_id) else "stdinClosed")
        self._output.on_input()
        run.input.offer(Write(call.token, call.bridge, params.write_id, params.chunk, params.offset))
        return None

    def _close_stdin(self, call: Call, params: ProcessCloseStdinParams) -> Result:
        run = self._run
        if run.state is not State.RUNNING or not run.input.open:
            return run.input.result("stdinClosed")
        end_of_file = None
        if run.start.params.tty:
            # A terminal has no end of input but what its line discipline makes of VEOF; raw mode makes nothing of it.
            assert run.child is not None
            end_of_file = run.child.eof_char()
        self._output.on_input()
        run.input.offer(Write(call.token, call.bridge, None, end_of_file))
        return None

    _methods: ClassVar[dict[str, Callable[[Any, Call, Any], Result]]] = {
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
