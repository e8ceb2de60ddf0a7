"""Directory of sessions: who each belongs to, and who wants it; pure.

A session is attached (a bridge speaks for it) or detached (its clock runs). A resume of an attached session puts the
old bridge to the proof: while that lasts there are contenders, of which at most one gets the session.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.base.messages import Address
from protocol.process import ProcessClosed, ProcessExited, ProcessOutput


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
class Session:
    """What the router knows of one session."""

    session_id: str
    observe_id: str
    connection: Address
    """Its ConnectionActor."""
    ttl: float
    """Seconds that it lives without a bridge."""
    asked_ttl: float | None = None
    """What its client asked for of that."""
    bridge: Address | None = None
    congested: bool = False
    visited: set[str] = field(default_factory=set)
    """Other sessions that this one's client has asked something of."""
    contenders: list[Client] = field(default_factory=list)
    last_seq: dict[str, int] = field(default_factory=dict)
    """Of each process that has started and is not closed: the number of its last event."""
    exited: set[str] = field(default_factory=set)
    """Those of them that have exited."""

    def heard(self, event: ProcessOutput | ProcessExited | ProcessClosed) -> None:
        """An event of one of its processes goes by."""
        self.last_seq[event.process_id] = event.seq
        if type(event) is ProcessOutput:
            return
        if type(event) is ProcessExited:
            self.exited.add(event.process_id)
        else:
            del self.last_seq[event.process_id]
            self.exited.discard(event.process_id)

    def last_events(self, process_id: str) -> list[ProcessExited | ProcessClosed]:
        """What is still to be told of a process whose actor is lost, and the child with it: its exit, if that was not
        told, and its end."""
        if process_id not in self.last_seq:
            return []
        seq = self.last_seq[process_id] + 1
        if process_id in self.exited:
            return [ProcessClosed(process_id, seq)]
        killed = ProcessExited(process_id, seq, 128 + signal.SIGKILL, signal="SIGKILL", reason="terminated")
        return [killed, ProcessClosed(process_id, seq + 1)]


class Directory:
    """All sessions of a server, by their id and by the id that observers have."""

    __slots__ = ("_by_id", "_by_observe_id")

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self._by_observe_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._by_id

    def create(self, connection: Address, ttl: float, asked_ttl: float | None) -> Session:
        """A new session, under ids that nobody can guess."""
        session = Session(str(uuid.uuid4()), str(uuid.uuid4()), connection, ttl, asked_ttl)
        self._by_id[session.session_id] = session
        self._by_observe_id[session.observe_id] = session
        return session

    def get(self, session_id: str) -> Session | None:
        """The session of this id."""
        return self._by_id.get(session_id)

    def observed(self, observe_id: str) -> Session | None:
        """The session that an observer means."""
        return self._by_observe_id.get(observe_id)

    def attached(self, session_id: str, bridge: Address) -> Session | None:
        """The session, if this bridge speaks for it."""
        session = self._by_id.get(session_id)
        return session if session is not None and session.bridge == bridge else None

    def of_bridge(self, bridge: Address) -> Session | None:
        """The session that this bridge speaks for."""
        return next((each for each in self._by_id.values() if each.bridge == bridge), None)

    def remove(self, session: Session) -> None:
        """The session is over."""
        del self._by_id[session.session_id]
        del self._by_observe_id[session.observe_id]

    def clear(self) -> None:
        """All sessions are over."""
        self._by_id.clear()
        self._by_observe_id.clear()
