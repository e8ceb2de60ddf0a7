"""ConnectionActor: one client session. It owns the process ids and spawns a ProcessActor for each.

The session outlives its connections: bridges come and go, the ConnectionActor stays until the router ends it, and
takes its ProcessActors with it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from thespian.actors import ActorExitRequest, ChildActorExited, WakeupMessage

from actors.base.deadlines import Deadlines
from actors.base.guarded import GuardedActor, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Answer,
    Attach,
    AttachFailed,
    Audited,
    BridgeAttached,
    BridgeDetached,
    Call,
    CancelReservation,
    Describe,
    Described,
    Detach,
    Drain,
    DropRecord,
    EndGently,
    Failure,
    FlushWaits,
    Forget,
    Forgotten,
    HandlesLost,
    HoldOutput,
    Idle,
    NearLimit,
    Observe,
    OpenService,
    OpenSession,
    OutputReleased,
    ProcessEnded,
    ProcessExits,
    ProcessLost,
    ProcessRuns,
    ReadObserved,
    Reconfigure,
    RecordsDropped,
    ReleaseOutput,
    Replay,
    Reservation,
    ReserveProcess,
    ServiceLost,
    StartFailed,
    StartProcess,
)
from actors.base.services import Services
from actors.session import audit
from actors.session.fair_release import FairRelease
from actors.session.start_rules import check_start
from actors.system.limit_warnings import near
from protocol.environment import EnvironmentInfoParams, EnvironmentStatus, EnvironmentStatusParams
from protocol.errors import (
    ExecServerError,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    ProcessExists,
    ShuttingDown,
    UnknownProcess,
)
from protocol.paths import cwd_path, path_uri
from protocol.process import (
    ProcessAttachParams,
    ProcessDetachParams,
    ProcessEntry,
    ProcessListParams,
    ProcessListResult,
    ProcessStartParams,
)
from protocol.requests import NoParams, ProcessRequest

REMEMBERED_BRIDGES = 4
"""How many former bridges of a session are known: one that was displaced may have sent requests before it knew."""


@dataclass(slots=True)
class Process:
    """What the books say of one process."""

    call: Call
    """The request that starts it."""
    params: ProcessStartParams
    cwd: str
    """Native."""
    actor: Address = None
    waiting: list[Any] | None = None
    """What is to be told to it, while the router has not answered whether it may start."""
    pid: int | None = None
    started_at_ms: int = 0
    by: tuple[str, str] = ("", "")
    """Who asked for it."""
    running: bool = True
    ended: bool = False
    """Nothing more will be told of it."""
    exit_code: int | None = None
    signal: str | None = None

    @property
    def state(self) -> str:
        """For a dump."""
        if self.waiting is not None:
            return "asked"
        if self.running:
            return "starting" if self.pid is None else "running"
        return "closed" if self.ended else "exited"

    def described(self, show_argv: bool) -> dict[str, Any]:
        """For a dump: a JSON object."""
        params = self.params
        return {
            "process": params.process_id,
            "state": self.state,
            "pid": self.pid,
            "tty": params.tty,
            "startedAtMs": self.started_at_ms,
            "exitCode": self.exit_code,
            "signal": self.signal,
            **({"argv": params.argv} if show_argv else {}),
        }

    def entry(self) -> ProcessEntry:
        """The process as process/list shows it."""
        return ProcessEntry(
            process_id=self.params.process_id,
            argv=self.params.argv,
            cwd=path_uri(self.cwd),
            tty=self.params.tty,
            pid=self.pid,
            started_at_ms=self.started_at_ms,
            running=self.running,
            exit_code=self.exit_code,
            signal=self.signal,
        )


class ConnectionActor(GuardedActor):
    """The books of one session: process id -> ProcessActor."""

    begins_group = True
    """A session has one place in the engine's queue for turns, however many processes it has (engine.cell.Group)."""

    def __init__(self) -> None:
        super().__init__()
        self._open: OpenSession | None = None
        self._early: list[Call | FlushWaits] = []
        """What bridges sent that was faster than OpenSession: only one sender's messages keep their order."""
        self._router: Address = None
        self._bridge: Address = None
        self._newest = 0
        self._gone: deque[Address] = deque(maxlen=REMEMBERED_BRIDGES)
        self._processes: dict[str, Process] = {}
        self._running = 0
        self._draining = False
        self._attachments: dict[str, int] = {}
        """Ids under which the client watches processes of other sessions, with the tokens of its requests."""
        self._flow = FairRelease()
        self._services = Services(self.createActor)
        self._attached: BridgeAttached | None = None
        self._deadlines = Deadlines(self.wakeupAfter)

    def receiveMsg_OpenSession(self, message: OpenSession, router: Address) -> None:
        self._open = message
        self._router = router
        early, self._early = self._early, []
        for each in early:
            self.receiveMessage(each, each.bridge)

    def receiveMsg_Drain(self, message: Drain, router: Address) -> None:
        self._draining = True
        if message.end_within is not None:
            for process in self._processes.values():
                if not process.ended:
                    self._tell(process, EndGently(message.end_within))
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        over = self._draining and all(process.ended for process in self._processes.values())
        if over and self._open is not None:
            self.send(self._router, Idle(self._open.session_id))

    def receiveMsg_Reconfigure(self, message: Reconfigure, router: Address) -> None:
        if self._open is not None:
            self._open = msgspec.structs.replace(self._open, settings=message.settings)

    # -- the client's requests ----------------------------------------------------------------------------------

    def receiveMsg_Call(self, message: Call, bridge: Address) -> None:
        if self._open is None:
            self._early.append(message)
            return
        if message.bridge == self._bridge:
            self._newest = message.token
        elif message.bridge in self._gone:
            error = InvalidRequest("session has been resumed by another connection")
            self.send(message.bridge, Failure(message.token, error))
            return
        match message.params:
            case ProcessStartParams():
                self._start(message, message.params)
            case ProcessListParams():
                entries = [process.entry() for process in self._processes.values()]
                self.send(message.bridge, Answer(message.token, ProcessListResult(entries)))
            case ProcessAttachParams():
                self._attach(message, message.params)
            case ProcessDetachParams():
                self._detach(message, message.params)
            case NoParams():
                self._answer_environment(message)
            case ProcessRequest() as params:
                self._pass_on(message, params)
            case params:
                self.send(self._service(params.FAMILY), message)

    def _service(self, family: str) -> Address:
        assert self._open is not None
        service = self._services.find(family)
        if service is None:
            service = self._services.make(family)
            opened = self._open
            facts = (opened.settings, self._attached, self._flow.held, opened.session_id, self._router)
            self.send(service, OpenService(*facts))
        return service

    def _pass_on(self, message: Call, params: ProcessRequest) -> None:
        process_id = params.process_id
        process = self._processes.get(process_id)
        if process is not None:
            self._tell(process, message)
        elif process_id not in self._attachments:
            self._answer_unknown(message, params)
        elif params.OBSERVABLE:
            assert self._open is not None
            self.send(self._router, ReadObserved(self._open.session_id, process_id, message))
        else:
            error = InvalidRequest(f"process {process_id} is only watched here, not owned", {"kind": "notOwner"})
            self.send(message.bridge, Failure(message.token, error))

    def _start(self, message: Call, params: ProcessStartParams) -> None:
        assert self._open is not None
        if params.process_id in self._processes or params.process_id in self._attachments:
            self.send(message.bridge, Failure(message.token, ProcessExists(params.process_id)))
            return
        by = ("", "") if self._attached is None else self._attached.client
        cwd = params.cwd
        try:
            cwd = cwd_path(params.cwd)
            if self._draining:
                raise ShuttingDown
            check_start(params, self._running, self._open.settings)
        except ExecServerError as error:
            self._audit(audit.failed, params, cwd, by, error)
            self.send(message.bridge, Failure(message.token, error))
            return
        self._processes[params.process_id] = Process(message, params, cwd, by=by, waiting=[])
        self._running += 1
        maximum = self._open.settings.max_processes_per_session
        if self._running == near(maximum):
            self.send(self._router, NearLimit("max_processes_per_session", self._running, maximum))
        self.send(self._router, ReserveProcess(self._open.session_id, params.process_id, params.tty))

    def receiveMsg_Reservation(self, message: Reservation, router: Address) -> None:
        assert self._open is not None
        process = self._processes[message.process_id]
        if message.error is not None:
            self._refuse_start(process, message.error)
            return
        process.actor = self.createActor(self._open.process_class)
        self._flow.add(message.process_id)
        start = StartProcess(
            session_id=self._open.session_id,
            token=process.call.token,
            bridge=process.call.bridge,
            router=self._router,
            params=process.params,
            cwd=process.cwd,
            settings=self._open.settings,
            held=self._flow.held,
        )
        waiting, process.waiting = process.waiting or [], None
        for each in (start, *waiting):
            self.send(process.actor, each)

    def _refuse_start(self, process: Process, error: ExecServerError) -> None:
        """It may not start; nor is there anybody who could answer what was asked of it since."""
        waiting, process.waiting = process.waiting or [], None
        del self._processes[process.params.process_id]
        self._stopped(process)
        self._audit(audit.failed, process.params, process.cwd, process.by, error)
        self.send(process.call.bridge, Failure(process.call.token, error))
        for each in waiting:
            if isinstance(each, Call) and isinstance(each.params, ProcessRequest):
                self._pass_on(each, each.params)
            elif isinstance(each, Observe):
                self.receiveMsg_Observe(each, self._router)
        self._tell_if_idle()

    def about(self, process_id: str | None = None, **more: Any) -> dict[str, Any]:
        return about(None if self._open is None else self._open.session_id, process_id, **more)

    def _tell(self, process: Process, message: Any) -> None:
        """Send to its actor, once there is one."""
        if process.waiting is None:
            self.send(process.actor, message)
        else:
            process.waiting.append(message)

    def _attach(self, message: Call, params: ProcessAttachParams) -> None:
        assert self._open is not None
        alias = params.process_id if params.as_ is None else params.as_
        if alias in self._processes or alias in self._attachments:
            error = InvalidRequest(f"process id {alias} is already in use here", {"kind": "processExists"})
            self.send(message.bridge, Failure(message.token, error))
            return
        self._attachments[alias] = message.token
        self.send(self._router, Attach(self._open.session_id, message, alias))

    def receiveMsg_AttachFailed(self, message: AttachFailed, router: Address) -> None:
        if self._attachments.get(message.alias) == message.token:
            del self._attachments[message.alias]

    def _detach(self, message: Call, params: ProcessDetachParams) -> None:
        assert self._open is not None
        if params.process_id not in self._attachments:
            self.send(message.bridge, Failure(message.token, UnknownProcess(params.process_id)))
            return
        del self._attachments[params.process_id]
        self.send(self._router, Detach(self._open.session_id, message, params.process_id))

    def receiveMsg_Observe(self, message: Observe, router: Address) -> None:
        assert self._open is not None
        process = self._processes.get(message.process_id)
        if process is not None:
            self._tell(process, message)
        else:
            self.send(router, Replay(self._open.session_id, message.process_id, message, None, 0))

    def _answer_unknown(self, message: Call, params: ProcessRequest) -> None:
        try:
            self.send(message.bridge, Answer(message.token, params.result_without_process()))
        except ExecServerError as error:
            self.send(message.bridge, Failure(message.token, error))

    def _answer_environment(self, message: Call) -> None:
        assert self._open is not None
        match message.params:
            case EnvironmentInfoParams():
                self.send(message.bridge, Answer(message.token, self._open.settings.environment))
            case EnvironmentStatusParams():
                self.send(message.bridge, Answer(message.token, EnvironmentStatus()))
            case params:
                self.send(message.bridge, Failure(message.token, MethodNotFound(params.METHOD)))

    def receiveMsg_Describe(self, message: Describe, router: Address) -> None:
        if self._open is not None:
            processes = [process.described(message.show_argv) for process in self._processes.values()]
            self.send(router, Described(self._open.session_id, processes))

    # -- what processes tell ------------------------------------------------------------------------------------

    def receiveMsg_ProcessRuns(self, message: ProcessRuns, sender: Address) -> None:
        process = self._processes.get(message.process_id)
        if process is not None:
            process.pid, process.started_at_ms = message.pid, message.started_at_ms
            if log.isEnabledFor(logging.INFO):
                log.info("process started", extra=self.about(message.process_id, pid=message.pid))
            self._audit(audit.started, process.params, process.cwd, process.by, message.pid, message.started_at_ms)

    def receiveMsg_ProcessExits(self, message: ProcessExits, sender: Address) -> None:
        process = self._processes.get(message.process_id)
        if process is not None:
            self._stopped(process)
            process.exit_code, process.signal = message.exit_code, message.signal
            how = (message.exit_code, message.signal, message.reason)
            if log.isEnabledFor(logging.INFO):
                facts = dict(zip(("exit_code", "signal", "reason"), how, strict=True))
                log.info("process exited", extra=self.about(message.process_id, pid=process.pid, **facts))
            self._audit(audit.ended, message.process_id, process.pid, *how)

    def _stopped(self, process: Process) -> None:
        self._running -= process.running
        process.running = False

    def _audit(self, entry: Callable[..., Audited], *facts: Any) -> None:
        """Have the audit log tell `entry` of these facts, if there is one."""
        if self._open is not None and self._open.audit is not None:
            self.send(self._open.audit, entry(self._open.session_id, *facts))

    # -- processes that end -------------------------------------------------------------------------------------

    def receiveMsg_StartFailed(self, message: StartFailed, process: Address) -> None:
        failed = self._processes.pop(message.process_id, None)
        if failed is not None:
            self._stopped(failed)
            self._audit(audit.failed, failed.params, failed.cwd, failed.by, message.error)
        assert self._open is not None
        self.send(self._router, CancelReservation(self._open.session_id, message.process_id))
        self._tell_if_idle()
        self._flow.remove(message.process_id)
        self._go_on_releasing()
        self.send(message.bridge, Failure(message.token, message.error))
        self.send(process, ActorExitRequest())

    def receiveMsg_ProcessEnded(self, message: ProcessEnded, process: Address) -> None:
        assert self._open is not None
        if message.process_id in self._processes:
            self._processes[message.process_id].ended = True
        self._tell_if_idle()
        self._flow.remove(message.process_id)
        self._go_on_releasing()
        self._deadlines.set(message.process_id, self._open.settings.process_retention)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        assert self._open is not None
        dropped = [process_id for key in self._deadlines.due(message.payload) if self._drop(process_id := str(key))]
        if dropped:
            self.send(self._router, RecordsDropped(self._open.session_id, dropped))

    def receiveMsg_DropRecord(self, message: DropRecord, router: Address) -> None:
        process = self._processes.get(message.process_id)
        if process is not None and process.ended:  # else it has been dropped already, and there is a new one
            self._deadlines.cancel(message.process_id)
            self._drop(message.process_id)

    def _drop(self, process_id: str) -> bool:
        """Forget a process that has ended; whether there was one."""
        process = self._processes.pop(process_id, None)
        if process is not None:
            self.send(process.actor, Forget())
        return process is not None

    def receiveMsg_Forgotten(self, message: Forgotten, process: Address) -> None:
        self.send(process, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        for family in self._services.lose(message.childAddress):
            log.error("the actor for %s requests ended by itself", family, extra=self.about())
            if family == "filesystem" and self._open is not None:
                self.send(self._router, HandlesLost(self._open.session_id))
            if self._bridge is not None:
                self.send(self._bridge, ServiceLost(family, self._newest))
        lost = [each for each, process in self._processes.items() if process.actor == message.childAddress]
        if not lost:
            return  # one of those that were told to end
        process_id = lost[0]
        log.error("the actor of a process ended by itself", extra=self.about(process_id))
        gone = self._processes.pop(process_id)
        if gone.running:
            self._stopped(gone)
            self._audit(audit.ended, process_id, gone.pid, None, None, "actorLost")
        self._tell_if_idle()
        self._flow.remove(process_id)
        self._deadlines.cancel(process_id)
        self._go_on_releasing()
        assert self._open is not None
        self.send(self._router, ProcessLost(self._open.session_id, process_id, self._newest))

    # -- bridges and flow ---------------------------------------------------------------------------------------

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, router: Address) -> None:
        self._bridge = message.bridge
        self._attached = message
        self._tell_services(message)

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, router: Address) -> None:
        for process in self._processes.values():
            self._tell(process, message)
        self._tell_services(message)
        if message.of_owner:
            self._bridge = self._attached = None
            self._newest = 0
            self._gone.append(message.bridge)
            self._attachments.clear()
            self._release()

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        if self._open is None:
            self._early.append(message)
            return
        for process in self._processes.values():
            self._tell(process, message)
        self._tell_services(message)
        if message.session_id == self._open.session_id:
            self.send(self._router, message)

    def receiveMsg_HoldOutput(self, message: HoldOutput, router: Address) -> None:
        for process_id in self._flow.hold():
            self.send(self._processes[process_id].actor, message)
        self._tell_services(message)

    def receiveMsg_ReleaseOutput(self, message: ReleaseOutput, router: Address) -> None:
        self._release()

    def receiveMsg_OutputReleased(self, message: OutputReleased, process: Address) -> None:
        self._flow.answered(message.process_id)
        self._go_on_releasing()

    def _release(self) -> None:
        self._flow.release()
        self._go_on_releasing()
        self._tell_services(ReleaseOutput())

    def _tell_services(self, message: Any) -> None:
        for service in self._services.all():
            self.send(service, message)

    def _go_on_releasing(self) -> None:
        for process_id in self._flow.next_batch():
            self.send(self._processes[process_id].actor, ReleaseOutput())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, router: Address) -> None:
        for process_id, process in self._processes.items():
            if process.running and process.pid is not None:
                self._audit(audit.ended, process_id, process.pid, None, None, "sessionEnded")
        self._processes.clear()
        self._services.clear()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        elif isinstance(message, Reservation) and self._open is not None and message.process_id in self._processes:
            process = self._processes[message.process_id]
            if process.actor is None:
                self._refuse_start(process, InternalError(f"the start failed inside the server: {error}"))
                self.send(self._router, CancelReservation(self._open.session_id, message.process_id))
