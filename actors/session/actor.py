"""ConnectionActor: one session of a client. (A connection, which comes and goes, is a BridgeActor.)

The session outlives its connections: bridges come and go, the ConnectionActor stays until the router ends it, and
takes its ProcessActors with it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import msgspec
from thespian.actors import ActorExitRequest, ChildActorExited

from actors.base.actor import BaseActor, Part, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    Describe,
    Described,
    Drain,
    Failure,
    FlushWaits,
    Idle,
    Observe,
    OpenService,
    OpenSession,
    PauseOutput,
    Reconfigure,
    Replay,
    Reservation,
    ServiceLost,
)
from actors.base.services import Services
from actors.session.attachments import Attachments
from actors.session.facts import SessionFacts
from actors.session.processes import Processes
from actors.system.budget import HANDLES
from protocol.environment import EnvironmentInfoParams, EnvironmentStatus, EnvironmentStatusParams
from protocol.errors import ExecServerError, InternalError, InvalidRequest, MethodNotFound, ProcessExists
from protocol.process import (
    ProcessAttachParams,
    ProcessDetachParams,
    ProcessListParams,
    ProcessListResult,
    ProcessStartParams,
)
from protocol.requests import Owner, ProcessRequest

REMEMBERED_BRIDGES = 4
"""How many former bridges of a session are known: one that was displaced may have sent requests before it knew."""


class ConnectionActor(BaseActor):
    """Sends each request of the session's client to whoever answers it: a process, a service, the router."""

    opens_with = OpenSession
    begins_group = True
    """A session has one place in the engine's queue for turns, however many processes it has (engine.cell.Group)."""
    parts: ClassVar[dict[str, type[Part]]] = {"_processes": Processes, "_attachments": Attachments}

    _facts: SessionFacts
    _processes: Processes
    _attachments: Attachments

    def __init__(self) -> None:
        super().__init__()
        self._bridge: Address | None = None
        self._newest = 0
        """The token of the bridge's newest request."""
        self._gone: deque[Address] = deque(maxlen=REMEMBERED_BRIDGES)
        self._services = Services(self.createActor)

    def about(self) -> dict[str, Any]:
        return about(self._facts.session_id)

    def receiveMsg_OpenSession(self, message: OpenSession, router: Address) -> None:
        self._facts = SessionFacts(message, router, self.send)
        self._processes = Processes(self, self._facts, self._tell_if_idle)
        self._attachments = Attachments(self, self._facts)

    def receiveMsg_Reconfigure(self, message: Reconfigure, router: Address) -> None:
        self._facts.opened = msgspec.structs.replace(self._facts.opened, settings=message.settings)

    # -- the client's requests ------------------------------------------------------------------------------------

    def receiveMsg_Call(self, call: Call, bridge: Address) -> None:
        if call.bridge == self._bridge:
            self._newest = call.token
        elif call.bridge in self._gone:
            error = InvalidRequest("session has been resumed by another connection")
            self.send(call.bridge, Failure(call.token, error))
            return
        params = call.params
        if params.OWNER is Owner.SERVICE:
            self.send(self._service(params.FAMILY), call)
        elif params.OWNER is Owner.PROCESS and isinstance(params, ProcessRequest):
            self._ask_process(call, params)
        else:
            self._answer(call)

    def _answer(self, call: Call) -> None:
        """Carry out what the session answers itself, or asks the router."""
        match call.params:
            case ProcessStartParams() as params:
                self._start(call, params)
            case ProcessListParams():
                self.send(call.bridge, Answer(call.token, ProcessListResult(self._processes.shown())))
            case ProcessAttachParams() as params:
                self._attach(call, params)
            case ProcessDetachParams() as params:
                self._attachments.detach(call, params)
            case _:
                self._answer_environment(call)

    def _start(self, call: Call, params: ProcessStartParams) -> None:
        if self._is_taken(params.process_id):
            self.send(call.bridge, Failure(call.token, ProcessExists(params.process_id)))
        else:
            self._processes.start(call, params)

    def _attach(self, call: Call, params: ProcessAttachParams) -> None:
        alias = params.process_id if params.as_ is None else params.as_
        if self._is_taken(alias):
            error = InvalidRequest(f"process id {alias} is already in use here", {"kind": "processExists"})
            self.send(call.bridge, Failure(call.token, error))
        else:
            self._attachments.attach(call, params, alias)

    def _is_taken(self, process_id: str) -> bool:
        return process_id in self._processes or process_id in self._attachments

    def _ask_process(self, call: Call, params: ProcessRequest) -> None:
        process_id = params.process_id
        if process_id in self._processes:
            self._processes.tell(process_id, call)
        elif process_id in self._attachments:
            self._attachments.ask(call, process_id)
        else:
            try:
                self.send(call.bridge, Answer(call.token, params.result_without_process()))
            except ExecServerError as error:
                self.send(call.bridge, Failure(call.token, error))

    def _answer_environment(self, call: Call) -> None:
        match call.params:
            case EnvironmentInfoParams():
                self.send(call.bridge, Answer(call.token, self._facts.settings.environment))
            case EnvironmentStatusParams():
                self.send(call.bridge, Answer(call.token, EnvironmentStatus()))
            case params:
                self.send(call.bridge, Failure(call.token, MethodNotFound(params.METHOD)))

    def receiveMsg_Observe(self, message: Observe, router: Address) -> None:
        if message.process_id in self._processes:
            self._processes.tell(message.process_id, message)
        else:
            self.send(router, Replay(self._facts.session_id, message.process_id, message, None, 0))

    # -- services -------------------------------------------------------------------------------------------------

    def _service(self, family: str) -> Address:
        service = self._services.find(family)
        if service is None:
            facts = self._facts
            service = self._services.make(family)
            paused = self._processes.paused
            self.send(service, OpenService(facts.settings, facts.attached, paused, facts.session_id))
        return service

    def _tell_services(self, message: Any) -> None:
        for service in self._services.all():
            self.send(service, message)

    # -- bridges and flow -----------------------------------------------------------------------------------------

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, router: Address) -> None:
        self._facts.attached = message
        self._bridge = message.bridge
        self._tell_services(message)

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, router: Address) -> None:
        self._processes.tell_all(message)
        self._tell_services(message)
        if message.of_owner:
            self._facts.attached = self._bridge = None
            self._newest = 0
            self._gone.append(message.bridge)
            self._attachments.clear()
            self._pause(False)

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        self._processes.tell_all(message)
        self._tell_services(message)
        if message.session_id == self._facts.session_id:
            self.send(self._facts.router, message)

    def receiveMsg_PauseOutput(self, message: PauseOutput, router: Address) -> None:
        self._pause(message.paused)

    def _pause(self, paused: bool) -> None:
        if paused:
            self._processes.pause()
        else:
            self._processes.resume()
        self._tell_services(PauseOutput(paused))

    # -- the server -----------------------------------------------------------------------------------------------

    def receiveMsg_Drain(self, message: Drain, router: Address) -> None:
        self._facts.draining = True
        self._processes.tell_all(message, unclosed=True)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._facts.draining and self._processes.all_closed:
            self.send(self._facts.router, Idle(self._facts.session_id))

    def receiveMsg_Describe(self, message: Describe, router: Address) -> None:
        self.send(router, Described(self._facts.session_id, self._processes.dumped(message.show_argv)))

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        for family in self._services.lose(message.childAddress):
            log.error("the actor for %s requests ended by itself", family, extra=self.about())
            if family == "filesystem":
                HANDLES.lose(self._facts.session_id)
            if self._bridge is not None:
                self.send(self._bridge, ServiceLost(family, self._newest))
        self._processes.lose(message.childAddress, self._newest)

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, router: Address) -> None:
        self._processes.end()
        self._services.clear()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        elif isinstance(message, Reservation):
            self._processes.refuse(message.process_id, error)
