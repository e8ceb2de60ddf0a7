"""RouterActor: which sessions there are, which connection each has, and who hears the events of its processes."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from thespian.actors import ActorExitRequest, ChildActorExited

from actors.base.actor import BaseActor, Part, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    AllIdle,
    Answer,
    Attached,
    BridgeAttached,
    BridgeClosed,
    BridgeDetached,
    Configure,
    Configured,
    Congestion,
    Drain,
    Failure,
    Idle,
    Initialize,
    Notify,
    OpenAudit,
    OpenSession,
    PauseOutput,
    PeerAlive,
    Probe,
    ProcessEvent,
    ProcessLost,
    ProcessStarted,
    Reconfigure,
    SessionLost,
    SessionTaken,
    Shutdown,
    ShutdownDone,
)
from actors.base.settings import Settings
from actors.router.accounts import Accounts
from actors.router.directory import Client, Directory, Session
from actors.router.dumps import Dumps
from actors.router.visits import Visits
from protocol.errors import (
    ActorLost,
    ExecServerError,
    InternalError,
    SessionAttached,
    ShuttingDown,
    UnknownSession,
)
from protocol.extensions import in_force
from protocol.process import ProcessOutput
from protocol.session import InitializeParams, InitializeResult, ServerInfo


class RouterActor(BaseActor):
    """Creates and finds sessions, keeps the clocks of detached ones, and demultiplexes events to bridges."""

    opens_with = Configure
    parts: ClassVar[dict[str, type[Part]]] = {"accounts": Accounts, "visits": Visits, "dumps": Dumps}

    _config: Configure
    accounts: Accounts

    def __init__(self) -> None:
        super().__init__()
        self.directory = Directory()
        self.visits = Visits(self, self.directory)
        self.dumps = Dumps(self, self.directory)
        self._audit: Address | None = None
        """The AuditActor, where there is an audit log."""
        self._closing = False
        self._busy: set[str] = set()
        """Sessions in which something runs, while a Drain waits for an answer."""
        self._awaits_idle: Address | None = None
        """Who sent that Drain."""

    # -- the server's own -----------------------------------------------------------------------------------------

    def receiveMsg_Configure(self, message: Configure, sender: Address) -> None:
        self._config = message
        self.accounts = Accounts(self, self.directory, message.settings)
        if message.settings.audit:
            self._audit = self.createActor("actors.session.audit.AuditActor")
            self.send(self._audit, OpenAudit(message.settings.audit, message.settings.audit_argv))
        self.send(sender, Configured())

    def receiveMsg_Reconfigure(self, message: Reconfigure, sender: Address) -> None:
        self._config = msgspec.structs.replace(self._config, settings=message.settings)
        self.accounts.reconfigure(message.settings)
        if self._audit is not None and message.settings.audit:
            self.send(self._audit, OpenAudit(message.settings.audit, message.settings.audit_argv))
        for session in self.directory:
            session.ttl, settings = self._life_of(session.asked_ttl)
            self.send(session.connection, Reconfigure(settings))

    def receiveMsg_Drain(self, message: Drain, sender: Address) -> None:
        self.accounts.draining = True
        self._awaits_idle = sender
        self._busy = {session.session_id for session in self.directory}
        for session in self.directory:
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
        for session in self.directory:
            if session.bridge is not None:
                self.send(session.bridge, SessionTaken("the server is shutting down"))
            self._refuse_contenders(session, InternalError("the server is shutting down"))
            self._end(session)
        self.send(sender, ShutdownDone())

    # -- sessions -------------------------------------------------------------------------------------------------

    def receiveMsg_Initialize(self, message: Initialize, bridge: Address) -> None:
        name = (message.peer, message.params.client_name)
        client = Client(bridge, message.token, message.params.max_message, message.max_bytes, name)
        wanted = message.params.resume_session_id
        try:
            if self._closing:
                raise InternalError("the server is shutting down")
            if not isinstance(wanted, str):
                self._attach(self._create(message.params), client)
                return
            session = self.directory.get(wanted)
            if session is None:
                raise UnknownSession(wanted)
        except ExecServerError as error:
            self.send(bridge, Failure(message.token, error))
            return
        if session.bridge is None:
            self._attach(session, client)
        else:
            self._contend(session, client)

    def _create(self, params: InitializeParams) -> Session:
        """A new session. Raises ShuttingDown, LimitReached."""
        if self.accounts.draining:
            raise ShuttingDown
        self.accounts.check_session()
        asked_ttl = None if params.session_ttl_ms is None else params.session_ttl_ms / 1000
        ttl, settings = self._life_of(asked_ttl)
        session = self.directory.create(self.createActor(self._config.connection_class), ttl, asked_ttl)
        opened = OpenSession(session.session_id, settings, self._config.process_class, self._audit)
        self.send(session.connection, opened)
        return session

    def _life_of(self, asked_ttl: float | None) -> tuple[float, Settings]:
        """How long a session lives without a connection, by its client's wish, and its settings."""
        settings = self._config.settings
        if asked_ttl is None:
            return settings.session_ttl, settings
        ttl = min(asked_ttl, settings.max_session_ttl)
        return ttl, msgspec.structs.replace(settings, process_retention=ttl)

    def _attach(self, session: Session, client: Client) -> None:
        settings = self._config.settings
        log.info("session attached", extra=about(session.session_id, peer=client.name[0]))
        session.bridge = client.bridge
        self.deadlines.cancel(("expiry", session.session_id))
        result = InitializeResult(
            session_id=session.session_id,
            observe_id=session.observe_id,
            environment_info=settings.environment,
            server=ServerInfo(settings.server_name, settings.server_version),
            extensions=in_force(screen=settings.screen, record=bool(settings.record)),
        )
        self.send(client.bridge, Attached(client.token, result, session.connection))
        attached = BridgeAttached(client.bridge, client.max_message, client.max_bytes, client.name)
        self.send(session.connection, attached)

    def receiveMsg_BridgeClosed(self, message: BridgeClosed, bridge: Address) -> None:
        if message.session_id is None:
            # The connection went before the answer to its initialize came: nobody knows the id of its new session.
            untold = self.directory.of_bridge(bridge)
            if untold is not None:
                self._end(untold)
        elif (session := self.directory.get(message.session_id)) is not None:
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

    def _detach(self, session: Session) -> None:
        log.info("session detached", extra=about(session.session_id))
        self.send(session.connection, BridgeDetached(session.bridge))
        self.visits.leave(session)
        session.bridge = None
        session.congested = False
        self.deadlines.cancel(("probe", session.session_id))
        self.deadlines.set(("expiry", session.session_id), session.ttl, lambda: self._end(session))

    def _end(self, session: Session) -> None:
        log.info("session ended", extra=about(session.session_id))
        self._forget(session)
        self.send(session.connection, ActorExitRequest())

    def _forget(self, session: Session) -> None:
        self.directory.remove(session)
        self.accounts.end_session(session.session_id)
        self.dumps.leave_out(session.session_id)
        self._busy.discard(session.session_id)
        self._tell_if_idle()
        self.visits.void(session.session_id, None)
        self.visits.leave(session)
        for what in ("expiry", "probe"):
            self.deadlines.cancel((what, session.session_id))

    # -- a resume of an attached session --------------------------------------------------------------------------

    def _contend(self, session: Session, client: Client) -> None:
        session.contenders.append(client)
        if len(session.contenders) == 1:
            self.send(session.bridge, Probe())
            seconds = self._config.settings.probe_timeout
            self.deadlines.set(("probe", session.session_id), seconds, lambda: self._displace(session))

    def receiveMsg_PeerAlive(self, message: PeerAlive, bridge: Address) -> None:
        session = self.directory.attached(message.session_id, bridge)
        if session is not None:
            self.deadlines.cancel(("probe", session.session_id))
            self._refuse_contenders(session, SessionAttached(session.session_id))

    def _displace(self, session: Session) -> None:
        """The old peer gave no sign of life in time."""
        old = session.bridge
        self._detach(session)
        self.send(old, SessionTaken("session has been resumed by another connection"))
        self._attach_newest_contender(session)

    def _refuse_contenders(self, session: Session, error: ExecServerError) -> None:
        for client in session.contenders:
            self.send(client.bridge, Failure(client.token, error))
        session.contenders = []

    def _withdraw_contender(self, session: Session, bridge: Address) -> None:
        session.contenders = [each for each in session.contenders if each.bridge != bridge]
        if not session.contenders:
            self.deadlines.cancel(("probe", session.session_id))

    def _attach_newest_contender(self, session: Session) -> None:
        """The last to ask is the likeliest to be there still: a client whose resume hangs connects once more."""
        if session.contenders:
            self._attach(session, session.contenders.pop())
            self._refuse_contenders(session, SessionAttached(session.session_id))

    # -- events and flow ------------------------------------------------------------------------------------------

    def receiveMsg_ProcessStarted(self, message: ProcessStarted, process: Address) -> None:
        process_id = message.result.process_id
        self.visits.replace_process(message.session_id, process_id)
        session = self.directory.get(message.session_id)
        if session is not None:
            session.last_seq[process_id] = 0
            if session.bridge == message.bridge:
                self.send(message.bridge, Answer(message.token, message.result))

    def receiveMsg_ProcessEvent(self, message: ProcessEvent, process: Address) -> None:
        session = self.directory.get(message.session_id)
        event = message.notification
        if session is not None:
            session.heard(event)
            if session.bridge is not None:
                self.send(session.bridge, Notify(event))
        if self.visits.observers:
            self.visits.hear(message.session_id, event)
        if not isinstance(event, ProcessOutput):
            self.accounts.over(message.session_id, event, message.retained, message.evicted)

    def receiveMsg_Congestion(self, message: Congestion, bridge: Address) -> None:
        session = self.directory.attached(message.session_id, bridge)
        if session is not None:
            session.congested = message.congested
            self.send(session.connection, PauseOutput(message.congested))
            self.visits.congested(session)

    # -- what must not happen -------------------------------------------------------------------------------------

    def receiveMsg_ProcessLost(self, message: ProcessLost, connection: Address) -> None:
        assert message.session_id is not None and message.process_id is not None
        session = self.directory.get(message.session_id)
        if session is not None:
            for event in session.last_events(message.process_id):
                self.receiveMsg_ProcessEvent(ProcessEvent(session.session_id, event), connection)
            if session.bridge is not None:
                self.send(session.bridge, ProcessLost(None, message.process_id, message.newest))
        self.visits.void(message.session_id, message.process_id)
        self.accounts.lose(message.session_id, message.process_id)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        for session in self.directory:
            if session.connection == message.childAddress:
                log.error("the actor of a session ended by itself", extra=about(session.session_id))
                self._forget(session)
                for client in session.contenders:
                    self.send(client.bridge, Failure(client.token, UnknownSession(session.session_id)))
                if session.bridge is not None:
                    self.send(session.bridge, SessionLost())

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self.directory.clear()  # their actors end with this one

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Initialize):
            self.send(sender, Failure(message.token, ActorLost(f"initialize failed inside the server: {error}")))
