"""ConnectionActor: one client session. It owns the process ids and spawns a ProcessActor for each.

The session outlives its connections: bridges come and go, the ConnectionActor stays until the router ends it, and
takes its ProcessActors with it.
"""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorExitRequest, ChildActorExited, WakeupMessage

from actors.answers import unknown_process_answer
from actors.deadlines import Deadlines
from actors.flow import OutputFlow
from actors.guarded import GuardedActor, log
from actors.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    EndWaits,
    Failure,
    Forget,
    Forgotten,
    HoldOutput,
    OpenSession,
    OutputReleased,
    ProcessEnded,
    ProcessLost,
    ReleaseOutput,
    StartFailed,
    StartProcess,
)
from protocol.environment import EnvironmentStatus
from protocol.errors import ExecServerError, InternalError, MethodNotFound, ProcessExists
from protocol.process import ProcessStartParams


class ConnectionActor(GuardedActor):
    """The books of one session: process id -> ProcessActor."""

    def __init__(self) -> None:
        super().__init__()
        self._open: OpenSession | None = None
        self._router: Address = None
        self._bridge: Address = None
        self._processes: dict[str, Address] = {}
        self._flow = OutputFlow()
        self._deadlines = Deadlines(self.wakeupAfter)

    def receiveMsg_OpenSession(self, message: OpenSession, router: Address) -> None:
        self._open = message
        self._router = router

    # -- the client's requests ----------------------------------------------------------------------------------

    def receiveMsg_Call(self, message: Call, bridge: Address) -> None:
        params = message.params
        if isinstance(params, ProcessStartParams):
            self._start(message, params)
            return
        process_id = getattr(params, "process_id", None)
        if process_id is not None:
            process = self._processes.get(process_id)
            if process is not None:
                self.send(process, message)
            else:
                self._answer_unknown(message, process_id)
        else:
            self._answer_environment(message)

    def _start(self, message: Call, params: ProcessStartParams) -> None:
        assert self._open is not None
        if params.process_id in self._processes:
            self.send(message.bridge, Failure(message.token, ProcessExists(params.process_id)))
            return
        process = self.createActor(self._open.process_class)
        self._processes[params.process_id] = process
        self._flow.add(params.process_id)
        start = StartProcess(
            session_id=self._open.session_id,
            token=message.token,
            bridge=message.bridge,
            router=self._router,
            params=params,
            settings=self._open.settings,
            held=self._flow.held,
        )
        self.send(process, start)

    def _answer_unknown(self, message: Call, process_id: str) -> None:
        answer = unknown_process_answer(message.params, process_id)
        if isinstance(answer, ExecServerError):
            self.send(message.bridge, Failure(message.token, answer))
        else:
            self.send(message.bridge, Answer(message.token, answer))

    def _answer_environment(self, message: Call) -> None:
        assert self._open is not None
        match message.method:
            case "environment/info":
                self.send(message.bridge, Answer(message.token, self._open.settings.environment))
            case "environment/status":
                self.send(message.bridge, Answer(message.token, EnvironmentStatus()))
            case method:
                self.send(message.bridge, Failure(message.token, MethodNotFound(method)))

    # -- processes that end -------------------------------------------------------------------------------------

    def receiveMsg_StartFailed(self, message: StartFailed, process: Address) -> None:
        self._processes.pop(message.process_id, None)
        self._flow.remove(message.process_id)
        self._go_on_releasing()
        self.send(message.bridge, Failure(message.token, message.error))
        self.send(process, ActorExitRequest())

    def receiveMsg_ProcessEnded(self, message: ProcessEnded, process: Address) -> None:
        assert self._open is not None
        self._flow.remove(message.process_id)
        self._go_on_releasing()
        self._deadlines.set(message.process_id, self._open.settings.process_retention)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for process_id in self._deadlines.due(message.payload):
            process = self._processes.pop(str(process_id), None)
            if process is not None:
                self.send(process, Forget())

    def receiveMsg_Forgotten(self, message: Forgotten, process: Address) -> None:
        self.send(process, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        lost = [each for each, process in self._processes.items() if process == message.childAddress]
        if not lost:
            return  # one of those that were told to end
        process_id = lost[0]
        log.error("the actor of process %r ended by itself", process_id)
        del self._processes[process_id]
        self._flow.remove(process_id)
        self._go_on_releasing()
        if self._bridge is not None:
            self.send(self._bridge, ProcessLost(process_id))

    # -- bridges and flow ---------------------------------------------------------------------------------------

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, router: Address) -> None:
        self._bridge = message.bridge

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, router: Address) -> None:
        self._bridge = None
        for process in self._processes.values():
            self.send(process, message)
        self._release()

    def receiveMsg_EndWaits(self, message: EndWaits, bridge: Address) -> None:
        for process in self._processes.values():
            self.send(process, message)

    def receiveMsg_HoldOutput(self, message: HoldOutput, router: Address) -> None:
        for process_id in self._flow.hold():
            self.send(self._processes[process_id], message)

    def receiveMsg_ReleaseOutput(self, message: ReleaseOutput, router: Address) -> None:
        self._release()

    def receiveMsg_OutputReleased(self, message: OutputReleased, process: Address) -> None:
        self._flow.answered(message.process_id)
        self._go_on_releasing()

    def _release(self) -> None:
        self._flow.release()
        self._go_on_releasing()

    def _go_on_releasing(self) -> None:
        for process_id in self._flow.next_batch():
            self.send(self._processes[process_id], ReleaseOutput())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, router: Address) -> None:
        self._processes.clear()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
