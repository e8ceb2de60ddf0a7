"""RouterActor: which sessions there are, which connection each has, and who hears the events of its processes.

A session is attached (a bridge speaks for it) or detached (its clock runs). A resume of an attached session puts the
old bridge to the proof: while that lasts there are contenders, of which at most one gets the session.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, cast

from thespian.actors import ActorExitRequest, ChildActorExited, WakeupMessage

from actors.deadlines import Deadlines
from actors.guarded import GuardedActor, log
from actors.messages import (
    Address,
    Alive,
    Answer,
    Attached,
    BridgeAttached,
    BridgeClosed,
    BridgeDetached,
    Configure,
    Configured,
    Congested,
    Displaced,
    Failure,
    HoldOutput,
    Initialize,
    Notify,
    OpenSession,
    Probe,
    ProcessEvent,
    ProcessStarted,
    ReleaseOutput,
    Relieved,
    SessionLost,
    Shutdown,
    ShutdownDone,
)
from protocol.errors import ActorLost, InternalError, SessionAttached, UnknownSession
from protocol.session import InitializeResult, ServerInfo

EXTENSIONS = ["size"]
"""The additions to the wire that are in force, by the names of docs/protocol.md."""


@dataclass(slots=True)
class Session:
    """What the router knows of one session."""

    session_id: str
    observe_id: str
    connection: Address
    bridge: Address | None = None
    contenders: list[tuple[Address, int]] = field(default_factory=list)


class RouterActor(GuardedActor):
    """Creates and finds sessions, keeps the clocks of detached ones, and demultiplexes events to bridges."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, Session] = {}
        self._deadlines = Deadlines(self.wakeupAfter)
        self._config: Configure | None = None
        self._closing = False

    # -- the server's own ---------------------------------------------------------------------------------------

    def receiveMsg_Configure(self, message: Configure, sender: Address) -> None:
        self._config = message
        self.send(sender, Configured())

    def receiveMsg_Shutdown(self, message: Shutdown, sender: Address) -> None:
        self._closing = True
        for session in list(self._sessions.values()):
            if session.bridge is not None:
                self.send(session.bridge, Displaced("the server is shutting down"))
            self._refuse_contenders(session)
            self._end(session)
        self.send(sender, ShutdownDone())

    # -- sessions -----------------------------------------------------------------------------------------------

    def receiveMsg_Initialize(self, message: Initialize, bridge: Address) -> None:
        if self._closing or self._config is None:
            self.send(bridge, Failure(message.token, InternalError("the server is shutting down")))
            return
        wanted = message.params.resume_session_id
        if not isinstance(wanted, str):
            self._attach(self._create(), bridge, message.token)
            return
        session = self._sessions.get(wanted)
        if session is None:
            self.send(bridge, Failure(message.token, UnknownSession(wanted)))
        elif session.bridge is None:
            self._attach(session, bridge, message.token)
        else:
            self._contend(session, bridge, message.token)

    def _create(self) -> Session:
        assert self._config is not None
        session = Session(str(uuid.uuid4()), str(uuid.uuid4()), self.createActor(self._config.connection_class))
        self._sessions[session.session_id] = session
        self.send(session.connection, OpenSession(session.session_id, self._config.settings))
        return session

    def _attach(self, session: Session, bridge: Address, token: int) -> None:
        assert self._config is not None
        settings = self._config.settings
        session.bridge = bridge
        self._deadlines.cancel(("expiry", session.session_id))
        result = InitializeResult(
            session_id=session.session_id,
            observe_id=session.observe_id,
            environment_info=settings.environment,
            server=ServerInfo(settings.server_name, settings.server_version),
            extensions=EXTENSIONS,
        )
        self.send(bridge, Attached(token, result, session.connection))
        self.send(session.connection, BridgeAttached(bridge))

    def receiveMsg_BridgeClosed(self, message: BridgeClosed, bridge: Address) -> None:
        session = self._sessions.get(message.session_id) if message.session_id is not None else None
        if session is not None:
            session.contenders = [each for each in session.contenders if each[0] != bridge]
            if session.bridge == bridge:
                self._detach(session)
                if message.end_session:
                    self._refuse_contenders(session)
                    self._end(session)
                else:
                    self._attach_first_contender(session)
        self.send(bridge, ActorExitRequest())

    def _detach(self, session: Session) -> None:
        assert self._config is not None
        self.send(session.connection, BridgeDetached(session.bridge))
        session.bridge = None
        self._deadlines.cancel(("probe", session.session_id))
        self._deadlines.set(("expiry", session.session_id), self._config.settings.session_ttl)

    def _end(self, session: Session) -> None:
        del self._sessions[session.session_id]
        self._deadlines.cancel(("expiry", session.session_id))
        self._deadlines.cancel(("probe", session.session_id))
        self.send(session.connection, ActorExitRequest())

    # -- a resume of an attached session ------------------------------------------------------------------------

    def _contend(self, session: Session, bridge: Address, token: int) -> None:
        assert self._config is not None
        session.contenders.append((bridge, token))
        if len(session.contenders) == 1:
            self.send(session.bridge, Probe())
            self._deadlines.set(("probe", session.session_id), self._config.settings.probe_timeout)

    def receiveMsg_Alive(self, message: Alive, bridge: Address) -> None:
        session = self._sessions.get(message.session_id)
        if session is not None and session.bridge == bridge:
            self._deadlines.cancel(("probe", session.session_id))
            self._refuse_contenders(session)

    def _refuse_contenders(self, session: Session) -> None:
        for bridge, token in session.contenders:
            self.send(bridge, Failure(token, SessionAttached(session.session_id)))
        session.contenders = []

    def _attach_first_contender(self, session: Session) -> None:
        if session.contenders:
            (bridge, token), session.contenders = session.contenders[0], session.contenders[1:]
            self._attach(session, bridge, token)
            self._refuse_contenders(session)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for key in self._deadlines.due(message.payload):
            what, session_id = cast(tuple[str, str], key)
            session = self._sessions.get(session_id)
            if session is None:
                continue
            if what == "expiry":
                self._end(session)
            else:
                old = session.bridge
                self._detach(session)
                self.send(old, Displaced("session has been resumed by another connection"))
                self._attach_first_contender(session)

    # -- events and flow ----------------------------------------------------------------------------------------

    def receiveMsg_ProcessEvent(self, message: ProcessEvent, sender: Address) -> None:
        session = self._sessions.get(message.session_id)
        if session is not None and session.bridge is not None:
            self.send(session.bridge, Notify(message.notification))

    def receiveMsg_ProcessStarted(self, message: ProcessStarted, sender: Address) -> None:
        session = self._sessions.get(message.session_id)
        if session is not None and session.bridge == message.bridge:
            self.send(message.bridge, Answer(message.token, message.result))

    def receiveMsg_Congested(self, message: Congested, bridge: Address) -> None:
        self._tell_connection(message.session_id, bridge, HoldOutput())

    def receiveMsg_Relieved(self, message: Relieved, bridge: Address) -> None:
        self._tell_connection(message.session_id, bridge, ReleaseOutput())

    def _tell_connection(self, session_id: str, bridge: Address, message: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.bridge == bridge:
            self.send(session.connection, message)

    # -- what must not happen -----------------------------------------------------------------------------------

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Address) -> None:
        for session in list(self._sessions.values()):
            if session.connection == message.childAddress:
                log.error("the actor of session %s ended by itself", session.session_id)
                del self._sessions[session.session_id]
                self._deadlines.cancel(("expiry", session.session_id))
                self._deadlines.cancel(("probe", session.session_id))
                for bridge, token in session.contenders:
                    self.send(bridge, Failure(token, UnknownSession(session.session_id)))
                if session.bridge is not None:
                    self.send(session.bridge, SessionLost())

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Initialize):
            self.send(sender, Failure(message.token, ActorLost(f"initialize failed inside the server: {error}")))
