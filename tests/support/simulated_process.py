"""SimulatedProcess: an actor that keeps a ProcessActor's promises to router, connection and bridge, without a child.

The test tells it what its child does. It uses the real record and the real waits of a process; its stdin is the
simplest one that answers every write once.
"""

from __future__ import annotations

from typing import Any

import msgspec
from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor
from actors.base.messages import (
    Address,
    Answer,
    BridgeDetached,
    Call,
    Drain,
    Failure,
    FlushWaits,
    Forget,
    Forgotten,
    Observe,
    OutputResumed,
    PauseOutput,
    ProcessEvent,
    ProcessStarted,
    Replay,
    StartFailed,
    StartProcess,
)
from actors.process.history import ProcessHistory
from actors.process.long_polls import LongPoll, LongPolls
from protocol.errors import ExecServerError, InternalError, SpawnError, UnknownProcess
from protocol.process import (
    ProcessOutput,
    ProcessReadParams,
    ProcessStartResult,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWaitParams,
    ProcessWriteParams,
    ProcessWriteResult,
)
from protocol.wire_types import Empty

RETAINED = 8000
"""Bytes of output that a simulated process retains."""
NAME = "tests.support.simulated_process.SimulatedProcess"


class Spawned(msgspec.Struct, frozen=True, gc=False):
    """The child runs, or could not be started."""

    succeeds: bool


class Prints(msgspec.Struct, frozen=True, gc=False):
    """The child prints this many bytes, which begin with `payload_of` the process."""

    size: int


class Exits(msgspec.Struct, frozen=True, gc=False):
    """The child exits; with `lets_go` nobody holds its pipes any more."""

    code: int
    lets_go: bool


class LetsGo(msgspec.Struct, frozen=True, gc=False):
    """The last descendant closes the pipes."""


class Reads(msgspec.Struct, frozen=True, gc=False):
    """The child reads its stdin, so that writes are accepted (True), or leaves it unread."""

    reading: bool


class JobsEnd(msgspec.Struct, frozen=True, gc=False):
    """The background jobs that the child left have ended."""


class SimulatedProcess(BaseActor):
    """`argv[1]` is a token that its output carries. "jobs" behind it: the child leaves background jobs; "at-once": it
    is spawned without a word of the test."""

    opens_with = StartProcess

    start: StartProcess

    def __init__(self) -> None:
        super().__init__()
        self.state = "starting"
        self.held = False
        self._connection: Address = None
        self._pipe: list[bytes] = []
        self._lets_go = False
        self._writes: list[Call] = []
        self._reading = True
        self.jobs = False
        self.forgotten = False
        self.dies_silently = False
        self._waits = LongPolls(self.deadlines, self._wait_is_over)

    @property
    def token(self) -> str:
        return self.start.params.argv[1]

    # -- what the test says -------------------------------------------------------------------------------------

    def receiveMsg_StartProcess(self, message: StartProcess, connection: Address) -> None:
        self._connection, self.start, self.held = connection, message, message.paused
        self.jobs = "jobs" in message.params.argv
        self.record = ProcessHistory(message.params.process_id, RETAINED, 0)
        if message.refusal is not None:
            self._fail(message.refusal)
        elif "at-once" in message.params.argv:
            self.receiveMsg_Spawned(Spawned(True), connection)

    def receiveMsg_Spawned(self, message: Spawned, sender: Address) -> None:
        if self.state != "starting":
            return
        start = self.start
        if message.succeeds:
            self.state = "running"
            result = ProcessStartResult(process_id=start.params.process_id)
            started = ProcessStarted(start.session_id, start.bridge, start.token, result, 1, 0)
            self.send(start.router, started)
            self.send(self._connection, started)
            self.unstash()
        else:
            self._fail(SpawnError("spawnNotFound", "No such file or directory (os error 2)"))

    def _fail(self, error: ExecServerError) -> None:
        start = self.start
        self.state = "failed"
        self.send(self._connection, StartFailed(start.params.process_id, start.token, start.bridge, error))
        self.unstash()

    def receiveMsg_Prints(self, message: Prints, sender: Address) -> None:
        if self.state in ("running", "exited") and not self._lets_go:
            text = f"{self.start.session_id}|{self.token}|"
            self._pipe.append(text.encode().ljust(message.size, b"."))
            self._pump()

    def receiveMsg_Exits(self, message: Exits, sender: Address) -> None:
        if self.state == "running":
            self._lets_go = message.lets_go
            self._exited(message.code)
            self._pump()

    def receiveMsg_LetsGo(self, message: LetsGo, sender: Address) -> None:
        if self.state == "exited":
            self._lets_go = True
            self._pump()

    def receiveMsg_Reads(self, message: Reads, sender: Address) -> None:
        self._reading = message.reading
        if message.reading:
            writes, self._writes = self._writes, []
            for call in writes:
                self.receiveMsg_Call(call, self.myAddress)

    def receiveMsg_JobsEnd(self, message: JobsEnd, sender: Address) -> None:
        self.jobs = False
        if self.forgotten:
            self.send(self._connection, Forgotten())

    # -- what a ProcessActor does -------------------------------------------------------------------------------

    def _event(self, notification: Any) -> None:
        event = ProcessEvent(self.start.session_id, notification)
        self.send(self.start.router, event)
        if not isinstance(notification, ProcessOutput) and self._connection is not None:
            self.send(self._connection, event)
        for waiter, answer in self._waits.take_ready(self.record.answer):
            self.send(waiter.bridge, Answer(waiter.token, answer))

    def _exited(self, code: int) -> None:
        self.state = "exited"
        self._event(self.record.exited(code, None, None))
        self.receiveMsg_Reads(Reads(True), self.myAddress)

    def _pump(self) -> None:
        if self.held:
            return
        for data in self._pipe:
            self._event(self.record.output("stdout", data))
        self._pipe.clear()
        if self.state == "exited" and self._lets_go:
            self.state = "closed"
            self._event(self.record.closed())

    def receiveMsg_Call(self, call: Call, sender: Address) -> None:
        if self.state == "starting":
            self.stash(call, sender)
            return
        answer = self._answer(call)
        if isinstance(answer, ExecServerError):
            self.send(call.bridge, Failure(call.token, answer))
        elif answer is not None:
            self.send(call.bridge, Answer(call.token, answer))

    def _answer(self, call: Call) -> Any:
        params = call.params
        if self.state == "failed":
            try:
                return params.result_without_process()
            except UnknownProcess as error:
                return error
        match params:
            case ProcessReadParams():
                answer = self.record.news(params) if params.wait_ms else self.record.read(params)
            case ProcessWaitParams():
                answer = self.record.wait() if self.record.exit is not None else None
            case ProcessWriteParams():
                if not self._reading and self.state == "running":
                    self._writes.append(call)
                    return None
                status = "accepted" if self.state == "running" else "stdinClosed"
                return ProcessWriteResult(status, status == "accepted")
            case ProcessTerminateParams():
                return ProcessTerminateResult(self._terminate())
            case _:
                return Empty()
        if answer is None:
            self._waits.add(LongPoll(call.token, call.bridge, params), (params.wait_ms or 0) / 1000)
        return answer

    def _terminate(self) -> bool:
        running = self.state == "running"
        if running:
            self._exited(137)
        if self.state == "exited":
            self._lets_go = True
            self._pump()
        return running

    def _wait_is_over(self, poll: LongPoll) -> None:
        self.send(poll.bridge, Answer(poll.token, self.record.answer_anyway(poll)))

    def receiveMsg_Drain(self, message: Drain, sender: Address) -> None:
        """It ends when the test says so."""

    def receiveMsg_Observe(self, message: Observe, sender: Address) -> None:
        if self.state == "starting":
            self.stash(message, sender)
            return
        failed = self.state == "failed"
        events = None if failed else self.record.replay(message.after_seq, message.after_offset)
        process_id = self.start.params.process_id
        next_seq = self.record.next_seq
        self.send(self.start.router, Replay(self.start.session_id, process_id, message, events, next_seq))

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        if self.state == "starting":
            self.stash(message, sender)
            return
        for waiter in self._waits.take_of(message.bridge):
            self.send(waiter.bridge, Answer(waiter.token, self.record.answer_anyway(waiter)))
        for call in self._writes:
            if call.bridge == message.bridge:
                self.send(call.bridge, Failure(call.token, InternalError("no room")))
        self._writes = [call for call in self._writes if call.bridge != message.bridge]

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, sender: Address) -> None:
        if self.state == "starting":
            self.stash(message, sender)
            return
        self._waits.take_of(message.bridge)
        self._writes = [call for call in self._writes if call.bridge != message.bridge]

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._connection = None
        if self.dies_silently:
            return
        if self.state in ("running", "exited"):
            if self.state == "running":
                self._event(self.record.exited(137, 9, "sessionEnded"))
            self._event(self.record.closed())

    def waits_for(self, bridge: Address) -> bool:
        """Whether a read or write of this bridge waits here."""
        waiting = [*self._waits._polls.values(), *self._writes]
        return any(each.bridge == bridge for each in waiting)

    def receiveMsg_PauseOutput(self, message: PauseOutput, sender: Address) -> None:
        self.held = message.paused
        if message.paused:
            return
        if self.state in ("running", "exited"):
            self._pump()
        self.send(self._connection, OutputResumed(self.start.params.process_id))

    def receiveMsg_Forget(self, message: Forget, sender: Address) -> None:
        assert self.state == "closed", "a living process is forgotten"
        self.forgotten = True
        if not self.jobs:
            self.send(self._connection, Forgotten())
