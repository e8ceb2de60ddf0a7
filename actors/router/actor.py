"""RouterActor: which sessions there are, which connection each has, and who hears the events of its processes.

A session is attached (a bridge speaks for it) or detached (its clock runs). A resume of an attached session puts the
old bridge to the proof: while that lasts there are contenders, of which at most one gets the session.
"""

from __future__ import annotations

import copy
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec
from thespian.actors import ActorExitRequest, ChildActorExited, WakeupMessage

from actors.base.counters import Counters
from actors.base.deadlines import Deadlines
from actors.base.guarded import GuardedActor, log
from actors.base.log_context import about, session_tag
from actors.base.messages import (
    Address,
    AllIdle,
    Answer,
    Attach,
    Attached,
    AttachFailed,
    BridgeAttached,
    BridgeClosed,
    BridgeDetached,
    CallElsewhere,
    CancelReservation,
    Configure,
    Configured,
    Congested,
    Describe,
    Described,
    Detach,
    Drain,
    DropRecord,
    Dump,
    Dumped,
    Failure,
    FlushWaits,
    HandleClosed,
    HandlesLost,
    HoldJudged,
    HoldOutput,
    Idle,
    Initialize,
    MayHold,
    Measure,
    Measured,
    NearLimit,
    Notify,
    Observe,
    OpenAudit,
    OpenSession,
    PeerAlive,
    Probe,
    ProcessEvent,
    ProcessLost,
    ProcessStarted,
    ReadObserved,
    Reconfigure,
    RecordsDropped,
    ReleaseOutput,
    Relieved,
    Replay,
    Reservation,
    ReserveProcess,
    RetainedBytes,
    SessionLost,
    SessionTaken,
    Shutdown,
    ShutdownDone,
    TrafficReport,
)
from actors.base.settings import Settings
from actors.router.observers import Observer, Observers
from actors.router.quotas import Quotas
from protocol.errors import (
    ActorLost,
    ExecServerError,
    InternalError,
    InvalidRequest,
    LimitReached,
    SessionAttached,
    ShuttingDown,
    UnknownProcess,
    UnknownSession,
)
from protocol.extensions import in_force
from protocol.process import ProcessAttachParams, ProcessAttachResult, ProcessClosed, ProcessExited, ProcessOutput
from protocol.session import InitializeParams, InitializeResult, ServerInfo
from protocol.wire_types import Empty

DUMP_S = 2.0
"""How long sessions may take to tell what they have, in seconds; those that do not are dumped without."""


class Client(NamedTuple):
    """Who asks for a session: a bridge, the token of its request, and the longest that it takes in bytes: a message,
    and a member of bytes."""

    bridge: Address
    token: int
    max_message: int
    max_bytes: int
    name: tuple[str, str]
    """Who is connected, and what it calls itself."""


@dataclass(slots=True)
class Told:
    """How far the events of one process have been told."""

    seq: int = 0
    exited: bool = False

    def last_events(self, process_id: str) -> Iterator[ProcessExited | ProcessClosed]:
        """What is still to be told of it when its actor is gone, and the child with it."""
        if not self.exited:
            self.seq += 1
            code = 128 + signal.SIGKILL
            yield ProcessExited(
                process_id=process_id, seq=self.seq, exit_code=code, signal="SIGKILL", reason="terminated"
            )
        yield ProcessClosed(process_id=process_id, seq=self.seq + 1)


@dataclass(slots=True)
class Session:
    """What the router knows of one session."""

    session_id: str
    observe_id: str
    connection: Address
    ttl: float
    asked_ttl: float | None = None
    bridge: Address | None = None
    congested: bool = False
    visited: set[str] = field(default_factory=set)
    """Other sessions that this one's client has asked something of."""
    contenders: list[Client] = field(default_factory=list)
    told: dict[str, Told] = field(default_factory=dict)
    """By process id, of those that are not closed."""


@dataclass(slots=True)
class Dumping:
    """A dump that is being made."""

    asker: Address
    awaited: set[str]
    found: dict[str, dict[str, Any]]


class RouterActor(GuardedActor):
    """Creates and finds sessions, keeps the clocks of detached ones, and demultiplexes events to bridges.

    It counts what all sessions have together: whoever starts something asks it first.
    """

    _totals: Quotas

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, Session] = {}
        self._by_observe_id: dict[str, Session] = {}
        self._observers = Observers()
        self._figures = Counters()
        self._dumping: Dumping | None = None
        self._asked: dict[tuple[str, str], tuple[str, Observe]] = {}
        """Attachments whose Replay is awaited: observer and alias -> observed session, question."""
        self._deadlines = Deadlines(self.wakeupAfter)
        self._config: Configure | None = None
        self._audit: Address | None = None
        self._closing = False
        self._draining = False
        self._busy: set[str] = set()
        """Sessions in which something runs, while a Drain waits for an answer."""
        self._awaits_idle: Address = None

    # -- the server's own ---------------------------------------------------------------------------------------

    def receiveMsg_Configure(self, message: Configure, sender: Address) -> None:
        self._config = message
        self._totals = Quotas(message.settings)
        if message.settings.audit is not None:
            self._audit = self.createActor("actors.session.audit.AuditActor")
            self.send(self._audit, OpenAudit(message.settings.audit, message.settings.audit_argv))
        self.send(sender, Configured())

    def receiveMsg_Reconfigure(self, message: Reconfigure, sender: Address) -> None:
        assert self._config is not None
        self._config = msgspec.structs.replace(self._config, settings=message.settings)
        self._totals.reconfigure(message.settings)
        if self._audit is not None and message.settings.audit is not None:
            self.send(self._audit, OpenAudit(message.settings.audit, message.settings.audit_argv))
        for session in self._sessions.values():
            session.ttl, settings = self._life_of(session.asked_ttl)
            self.send(session.connection, Reconfigure(settings))

    def receiveMsg_Drain(self, message: Drain, sender: Address) -> None:
        self._draining = True
        self._awaits_idle = sender
        self._busy = set(self._sessions)
        for session in self._sessions.values():
            self.send(session.connection, message)
        self._tell_if_idle()

    def receiveMsg_Idle(self, message: Idle, connection: Address) -> None:
        self._busy.discard(message.session_id)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._awaits_idle is not None and not self._busy:
            self.send(self._awaits_idle, AllIdle())
            self._awaits_idle = None

    def receiveMsg_Shutdown(self, message: Shutdown, sender: Address) -> None:
        self._closing = True
        for session in list(self._sessions.values()):
            if session.bridge is not None:
                self.send(session.bridge, SessionTaken("the server is shutting down"))
            self._refuse_contenders(session, InternalError("the server is shutting down"))
            self._end(session)
        self.send(sender, ShutdownDone())

    # -- sessions -----------------------------------------------------------------------------------------------

    def receiveMsg_Initialize(self, message: Initialize, bridge: Address) -> None:
        if self._closing or self._config is None:
            self.send(bridge, Failure(message.token, InternalError("the server is shutting down")))
            return
        name = (message.peer, message.params.client_name)
        client = Client(bridge, message.token, message.params.max_message, message.max_bytes, name)
        wanted = message.params.resume_session_id
        if not isinstance(wanted, str) and self._draining:
            self.send(bridge, Failure(message.token, ShuttingDown()))
            return
        if not isinstance(wanted, str):
            try:
                self._totals.check_session(len(self._sessions))
            except LimitReached as error:
                self._count_refusal(error)
                self.send(bridge, Failure(message.token, error))
                return
            self._attach(self._create(message.params), client)
            return
        session = self._sessions.get(wanted)
        if session is None:
            self.send(bridge, Failure(message.token, UnknownSession(wanted)))
        elif session.bridge is None:
            self._attach(session, client)
        else:
            self._contend(session, client)

    def _create(self, params: InitializeParams) -> Session:
        assert self._config is not None
        asked_ttl = None if params.session_ttl_ms is None else params.session_ttl_ms / 1000
        ttl, settings = self._life_of(asked_ttl)
        connection = self.createActor(self._config.connection_class)
        session = Session(str(uuid.uuid4()), str(uuid.uuid4()), connection, ttl, asked_ttl)
        self._sessions[session.session_id] = session
        self._by_observe_id[session.observe_id] = session
        self.send(connection, OpenSession(session.session_id, settings, self._config.process_class, self._audit))
        return session

    def _life_of(self, asked_ttl: float | None) -> tuple[float, Settings]:
        """How long a session lives without a connection, by its client's wish, and its settings."""
        assert self._config is not None
        settings = self._config.settings
        if asked_ttl is None:
            return settings.session_ttl, settings
        ttl = min(asked_ttl, settings.max_session_ttl)
        return ttl, msgspec.structs.replace(settings, process_retention=ttl)

    def _attach(self, session: Session, client: Client) -> None:
        assert self._config is not None
        settings = self._config.settings
        log.info("session attached", extra=about(session.session_id, peer=client.name[0]))
        session.bridge = client.bridge
        self._deadlines.cancel(("expiry", session.session_id))
        result = InitializeResult(
            session_id=session.session_id,
            observe_id=session.observe_id,
            environment_info=settings.environment,
            server=ServerInfo(settings.server_name, settings.server_version),
            extensions=in_force(screen=settings.screen, record=settings.record is not None),
        )
        self.send(client.bridge, Attached(client.token, result, session.connection))
        attached = BridgeAttached(client.bridge, client.max_message, client.max_bytes, client.name)
        self.send(session.connection, attached)

    def receiveMsg_BridgeClosed(self, message: BridgeClosed, bridge: Address) -> None:
        if message.session_id is None:
            self._end_untold_session(bridge)
        elif (session := self._sessions.get(message.session_id)) is not None:
            if session.bridge != bridge:
                self._withdraw_contender(session, bridge)
            else:
                self._detach(session)
                if message.end_session:
                    self._refuse_contenders(session, UnknownSession(session.session_id))
                    self._end(session)
                else:
                    self._attach_newest_contender(session)
        self.send(bridge, ActorExitRequest())

    def _end_untold_session(self, bridge: Address) -> None:
        """The connection went before the answer to its initialize came: nobody knows the id of its new session."""
        for session in self._sessions.values():
            if session.bridge == bridge:
                self._end(session)
                return

    def _detach(self, session: Session) -> None:
        log.info("session detached", extra=about(session.session_id))
        self.send(session.connection, BridgeDetached(session.bridge))
        self._leave_others(session)
        session.bridge = None
        session.congested = False
        self._deadlines.cancel(("probe", session.session_id))
        self._deadlines.set(("expiry", session.session_id), session.ttl)

    def _end(self, session: Session) -> None:
        log.info("session ended", extra=about(session.session_id))
        self._forget(session)
        self.send(session.connection, ActorExitRequest())

    def _forget(self, session: Session) -> None:
        del self._sessions[session.session_id]
        del self._by_observe_id[session.observe_id]
        self._totals.end_session(session.session_id)
        self._stop_awaiting(session.session_id)
        self._busy.discard(session.session_id)
        self._tell_if_idle()
        self._void_requests(session.session_id, None)
        self._leave_others(session)
        self._deadlines.cancel(("expiry", session.session_id))
        self._deadlines.cancel(("probe", session.session_id))

    def _leave_others(self, session: Session) -> None:
        """Its client asks nothing of other sessions any more, and watches nothing there."""
        for session_id in session.visited:
            if session_id in self._sessions:
                self.send(self._sessions[session_id].connection, BridgeDetached(session.bridge, of_owner=False))
        session.visited.clear()
        self._observers.remove_all(session.session_id)
        self._asked = {key: asked for key, asked in self._asked.items() if key[0] != session.session_id}

    # -- a resume of an attached session ------------------------------------------------------------------------

    def _contend(self, session: Session, client: Client) -> None:
        assert self._config is not None
        session.contenders.append(client)
        if len(session.contenders) == 1:
            self.send(session.bridge, Probe())
            self._deadlines.set(("probe", session.session_id), self._config.settings.probe_timeout)

    def receiveMsg_PeerAlive(self, message: PeerAlive, bridge: Address) -> None:
        session = self._sessions.get(message.session_id)
        if session is not None and session.bridge == bridge:
            self._deadlines.cancel(("probe", session.session_id))
            self._refuse_contenders(session, SessionAttached(session.session_id))

    def _refuse_contenders(self, session: Session, error: ExecServerError) -> None:
        for client in session.contenders:
            self.send(client.bridge, Failure(client.token, error))
        session.contenders = []

    def _withdraw_contender(self, session: Session, bridge: Address) -> None:
        session.contenders = [each for each in session.contenders if each.bridge != bridge]
        if not session.contenders:
            self._deadlines.cancel(("probe", session.session_id))

    def _attach_newest_contender(self, session: Session) -> None:
        """The last to ask is the likeliest to be there still: a client whose resume hangs connects once more."""
        if session.contenders:
            self._attach(session, session.contenders.pop())
            self._refuse_contenders(session, SessionAttached(session.session_id))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for key in self._deadlines.due(message.payload):
            what, session_id = cast(tuple[str, str], key)
            if what == "dump":
                self._tell_dump()
                continue
            session = self._sessions.get(session_id)
            if session is None:
                continue
            if what == "expiry":
                self._end(session)
            else:
                old = session.bridge
                self._detach(session)
                self.send(old, SessionTaken("session has been resumed by another connection"))
                self._attach_newest_contender(session)

    # -- events and flow ----------------------------------------------------------------------------------------

    def receiveMsg_ProcessEvent(self, message: ProcessEvent, sender: Address) -> None:
        session = self._sessions.get(message.session_id)
        event = message.notification
        if session is not None:
            told = session.told.get(event.process_id)
            if told is not None:
                told.seq = event.seq
            if session.bridge is not None:
                self.send(session.bridge, Notify(event))
        for observer in self._observers.of(message.session_id, event.process_id):
            for heard in observer.hear(event):
                self.send(observer.bridge, Notify(heard))
        if type(event) is ProcessOutput:
            return
        if isinstance(event, ProcessExited):
            if session is not None and event.process_id in session.told:
                session.told[event.process_id].exited = True
            self._totals.over(message.session_id, event.process_id)
            self._figures.count(self._figures.exits, event.reason or "exited")
        else:
            if session is not None:
                session.told.pop(event.process_id, None)
            self._figures.evicted_bytes += message.evicted
            self._observers.close(message.session_id, event.process_id)
            self._account(message.session_id, event.process_id, message.retained, finished=True)

    # -- what all sessions have together --------------------------------------------------------------------------

    def receiveMsg_ReserveProcess(self, message: ReserveProcess, connection: Address) -> None:
        error: ExecServerError | None = None
        if message.session_id not in self._sessions:
            return  # it is about to end, with all it has
        try:
            if self._draining:
                raise ShuttingDown
            self._totals.begin(message.session_id, message.process_id)
        except LimitReached as refused:
            error = refused
            self._count_refusal(refused)
        except ShuttingDown as refused:
            error = refused
        else:
            self._figures.count(self._figures.starts, "tty" if message.tty else "pipe")
        self.send(connection, Reservation(message.process_id, error))

    def receiveMsg_MayHold(self, message: MayHold, files: Address) -> None:
        if message.session_id not in self._sessions:
            return  # it is about to end, with all it has
        error = None
        try:
            self._totals.hold(message.session_id)
        except LimitReached as refused:
            error = refused
            self._count_refusal(refused)
        self.send(files, HoldJudged(message.number, error))

    def receiveMsg_HandleClosed(self, message: HandleClosed, files: Address) -> None:
        self._totals.let_go(message.session_id)

    def receiveMsg_HandlesLost(self, message: HandlesLost, connection: Address) -> None:
        self._totals.lose_handles(message.session_id)

    def _count_refusal(self, error: LimitReached) -> None:
        assert error.data is not None
        self._figures.count(self._figures.refusals, error.data["limit"])

    def receiveMsg_CancelReservation(self, message: CancelReservation, connection: Address) -> None:
        self._figures.failed_starts += 1
        self._totals.lose(message.session_id, message.process_id)

    def receiveMsg_RetainedBytes(self, message: RetainedBytes, process: Address) -> None:
        self._figures.evicted_bytes += message.evicted
        self._account(message.session_id, message.process_id, message.size)

    def _account(self, session_id: str, process_id: str, size: int, finished: bool = False) -> None:
        """A process keeps so many bytes of its output; what is too much for the server goes."""
        if session_id not in self._sessions:
            return
        for doomed_session, doomed in self._totals.keeps(session_id, process_id, size, finished):
            self.send(self._sessions[doomed_session].connection, DropRecord(doomed))

    def receiveMsg_RecordsDropped(self, message: RecordsDropped, connection: Address) -> None:
        for process_id in message.process_ids:
            self._totals.drop(message.session_id, process_id)

    def receiveMsg_TrafficReport(self, message: TrafficReport, bridge: Address) -> None:
        figures = self._figures
        figures.received_bytes += message.received_bytes
        figures.sent_bytes += message.sent_bytes
        figures.add_requests(message.requests)

    def receiveMsg_Measure(self, message: Measure, sender: Address) -> None:
        figures, totals = self._figures, self._totals
        figures.sessions = len(self._sessions)
        figures.attached_sessions = sum(session.bridge is not None for session in self._sessions.values())
        figures.running_processes, figures.finished_processes = totals.running, totals.finished
        figures.retained_bytes = totals.retained_bytes
        figures.file_handles = totals.handles
        self.send(sender, Measured(copy.deepcopy(figures)))

    def receiveMsg_Dump(self, message: Dump, sender: Address) -> None:
        self._tell_dump()  # of whoever asked before, as far as it is there
        self._dumping = Dumping(sender, set(self._sessions), {})
        for session in self._sessions.values():
            self._dumping.found[session.session_id] = {
                "session": session_tag(session.session_id),
                "attached": session.bridge is not None,
                "ttlSeconds": session.ttl,
                "congested": session.congested,
                "contenders": len(session.contenders),
                "processes": None,
            }
            self.send(session.connection, Describe(message.show_argv))
        self._deadlines.set(("dump", ""), DUMP_S)
        self._stop_awaiting("")

    def receiveMsg_Described(self, message: Described, connection: Address) -> None:
        dumping = self._dumping
        if dumping is not None and message.session_id in dumping.awaited:
            dumping.found[message.session_id]["processes"] = message.processes
            self._stop_awaiting(message.session_id)

    def _stop_awaiting(self, session_id: str) -> None:
        if self._dumping is not None:
            self._dumping.awaited.discard(session_id)
            if not self._dumping.awaited:
                self._tell_dump()

    def _tell_dump(self) -> None:
        dumping, self._dumping = self._dumping, None
        if dumping is not None:
            self._deadlines.cancel(("dump", ""))
            self.send(dumping.asker, Dumped(list(dumping.found.values())))

    def receiveMsg_NearLimit(self, message: NearLimit, sender: Address) -> None:
        self._totals.note_near(message.limit, message.used, message.maximum)

    def receiveMsg_ProcessStarted(self, message: ProcessStarted, sender: Address) -> None:
        self._observers.forget(message.session_id, message.result.process_id)
        session = self._sessions.get(message.session_id)
        if session is not None:
            session.told[message.result.process_id] = Told()
            if session.bridge == message.bridge:
                self.send(message.bridge, Answer(message.token, message.result))

    def receiveMsg_Congested(self, message: Congested, bridge: Address) -> None:
        session = self._attached(message.session_id, bridge)
        if session is not None:
            session.congested = True
            self.send(session.connection, HoldOutput())
            for observer in self._observers.by(session.session_id):
                observer.congested = True

    def receiveMsg_Relieved(self, message: Relieved, bridge: Address) -> None:
        session = self._attached(message.session_id, bridge)
        if session is not None:
            session.congested = False
            self.send(session.connection, ReleaseOutput())
            for observer in self._observers.by(session.session_id):
                observer.congested = False
                for gap in observer.take_gap():
                    self.send(bridge, Notify(gap))

    def _attached(self, session_id: str, bridge: Address) -> Session | None:
        """The session, if this bridge speaks for it."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.bridge == bridge else None

    # -- other sessions -------------------------------------------------------------------------------------------

    def receiveMsg_CallElsewhere(self, message: CallElsewhere, bridge: Address) -> None:
        caller = self._attached(message.session_id, bridge)
        target = self._sessions.get(message.target_id)
        if target is None:
            self.send(bridge, Failure(message.call.token, UnknownSession(message.target_id)))
        elif caller is not None:
            caller.visited.add(target.session_id)
            self.send(target.connection, message.call)

    def receiveMsg_FlushWaits(self, message: FlushWaits, connection: Address) -> None:
        caller = self._attached(message.session_id, message.bridge)
        for session_id in caller.visited if caller is not None else ():
            if session_id in self._sessions:
                self.send(self._sessions[session_id].connection, message)

    def receiveMsg_Attach(self, message: Attach, connection: Address) -> None:
        params = cast(ProcessAttachParams, message.call.params)
        if params.observe_id is not None:
            target = self._by_observe_id.get(params.observe_id)
        else:
            target = self._sessions.get(params.session_id or "")
        call = message.call
        if self._attached(message.observer_id, call.bridge) is None:
            return  # the connection is gone
        error: InvalidRequest | None = None
        if target is None:
            error = UnknownSession(params.observe_id or params.session_id or "")
        elif target.session_id == message.observer_id:
            error = InvalidRequest("a session hears of its own processes without process/attach")
        if target is None or error is not None:
            self.send(call.bridge, Failure(call.token, error or UnknownSession("")))
            self.send(connection, AttachFailed(message.alias, call.token))
            return
        observe = Observe(
            message.observer_id,
            call.bridge,
            call.token,
            params.process_id,
            message.alias,
            params.after_seq,
            params.after_offset,
        )
        self._asked[observe.observer_id, observe.alias] = target.session_id, observe
        self.send(target.connection, observe)

    def receiveMsg_Replay(self, message: Replay, sender: Address) -> None:
        observe = message.observe
        key = (observe.observer_id, observe.alias)
        session = self._attached(observe.observer_id, observe.bridge)
        if session is None or key not in self._asked or self._asked[key][1] != observe:
            return  # the observer's connection is gone, or it has detached meanwhile
        del self._asked[key]
        if message.events is None:
            self.send(observe.bridge, Failure(observe.token, message.error or UnknownProcess(message.process_id)))
            self.send(session.connection, AttachFailed(observe.alias, observe.token))
            return
        observer = Observer(observe.observer_id, observe.bridge, observe.alias)
        self._observers.add(message.session_id, message.process_id, observer)
        self.send(observe.bridge, Answer(observe.token, ProcessAttachResult(message.next_seq)))
        for event in message.events:
            for heard in observer.hear(event):
                self.send(observe.bridge, Notify(heard))
            if isinstance(event, ProcessClosed):
                self._observers.close(message.session_id, message.process_id)
        observer.congested = session.congested

    def receiveMsg_Detach(self, message: Detach, connection: Address) -> None:
        self._observers.remove(message.observer_id, message.alias)
        asked = self._asked.pop((message.observer_id, message.alias), None)
        if asked is not None:
            self.send(asked[1].bridge, Failure(asked[1].token, InvalidRequest("detached before it was attached")))
        # Nothing could tell later whose answer a read under this id waits for.
        self.send(message.call.bridge, ProcessLost(None, message.alias, message.call.token))
        self.send(message.call.bridge, Answer(message.call.token, Empty()))

    def receiveMsg_ReadObserved(self, message: ReadObserved, connection: Address) -> None:
        call = message.call
        session = self._sessions.get(message.observer_id)
        found = self._observers.target(message.observer_id, message.alias)
        asked = self._asked.get((message.observer_id, message.alias))
        if found is None and asked is not None:
            found = asked[0], asked[1].process_id
        target = self._sessions.get(found[0]) if found is not None else None
        if session is None or found is None or target is None:
            self.send(call.bridge, Failure(call.token, UnknownProcess(message.alias)))
            return
        session.visited.add(target.session_id)
        params = msgspec.structs.replace(call.params, process_id=found[1])
        self.send(target.connection, msgspec.structs.replace(call, params=params))

    # -- what must not happen -----------------------------------------------------------------------------------

    def receiveMsg_ProcessLost(self, message: ProcessLost, connection: Address) -> None:
        assert message.session_id is not None
        session = self._sessions.get(message.session_id)
        if session is not None:
            told = session.told.get(message.process_id or "")
            for event in told.last_events(message.process_id or "") if told is not None else ():
                self.receiveMsg_ProcessEvent(ProcessEvent(message.session_id, event), None)
            if session.bridge is not None:
                self.send(session.bridge, ProcessLost(None, message.process_id, message.newest))
        self._void_requests(message.session_id, message.process_id)
        self._observers.close(message.session_id, message.process_id or "")
        self._totals.lose(message.session_id, message.process_id or "")

    def _void_requests(self, session_id: str, process_id: str | None) -> None:
        """What clients of other sessions have asked of this process, or of the whole session, has no answer."""
        for target_id, observe in list(self._asked.values()):
            if target_id == session_id and process_id in (None, observe.process_id):
                self.receiveMsg_Replay(Replay(session_id, observe.process_id, observe, None, 0), None)
                self.send(observe.bridge, ProcessLost(None, observe.alias))
        for session in self._sessions.values():
            if session_id in session.visited and session.bridge is not None:
                self.send(session.bridge, ProcessLost(session_id, process_id))
                for alias in self._observers.aliases(session.session_id, session_id, process_id):
                    self.send(session.bridge, ProcessLost(None, alias))

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        for session in list(self._sessions.values()):
            if session.connection == message.childAddress:
                log.error("the actor of a session ended by itself", extra=about(session.session_id))
                self._forget(session)
                for client in session.contenders:
                    self.send(client.bridge, Failure(client.token, UnknownSession(session.session_id)))
                if session.bridge is not None:
                    self.send(session.bridge, SessionLost())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._sessions.clear()  # their actors end with this one

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Initialize):
            self.send(sender, Failure(message.token, ActorLost(f"initialize failed inside the server: {error}")))
