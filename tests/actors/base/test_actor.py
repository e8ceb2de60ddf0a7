"""The base of our actors: what it promises to their handlers, and that each handles just what it is sent."""

from __future__ import annotations

import logging
import typing
from typing import Any, ClassVar

import msgspec
import pytest
from thespian.actors import ActorExitRequest

from actors.base import messages as m
from actors.base.actor import BaseActor, Part
from actors.process.actor import CloseStreams, ProcessActor
from actors.router.actor import RouterActor
from actors.services.environment import EnvironmentActor, LookedUp
from actors.services.files import Done, FilesActor, Looked
from actors.services.http import HttpActor
from actors.session.actor import ConnectionActor
from actors.session.audit import AuditActor
from actors.system.http.exchange import Response
from transport.bridge import BridgeActor, Open, TakeMore
from transport.interface import TransportEvent


class Opens(msgspec.Struct, frozen=True):
    """The first message."""


class Says(msgspec.Struct, frozen=True):
    """A word; "later" waits until "now" comes."""

    word: str


class Fails(msgspec.Struct, frozen=True):
    """The handler of this one has a fault."""


class Counts(msgspec.Struct, frozen=True):
    """For the part."""


class Counter(Part):
    """A part that counts."""

    count = 0

    def receiveMsg_Counts(self, message: Counts, sender: Any) -> None:
        self.count += 1


class Listener(BaseActor):
    """Tells what it heard."""

    opens_with = Opens
    parts: ClassVar[dict[str, type[Part]]] = {"counter": Counter}

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def receiveMsg_Opens(self, message: Opens, sender: Any) -> None:
        self.counter = Counter(self)
        self.heard.append("open")

    def receiveMsg_Says(self, message: Says, sender: Any) -> None:
        if message.word == "later" and "now" not in self.heard:
            self.stash(message, sender)
            return
        self.heard.append(message.word)
        if message.word == "now":
            self.unstash()

    def receiveMsg_Fails(self, message: Fails, sender: Any) -> None:
        raise ValueError("a fault")

    def on_fault(self, message: Any, sender: Any, error: Exception) -> None:
        self.heard.append(f"mended {type(message).__name__}")


def told(*messages: Any) -> Listener:
    """A listener that has been sent these."""
    actor = Listener()
    for message in messages:
        actor.receiveMessage(message, None)
    return actor


def test_what_comes_before_the_opening_is_handled_after_it_in_its_order() -> None:
    """Lost: a request of a bridge that was faster than the router's first word to a new session."""
    actor = told(Says("a"), Counts(), Says("b"), Opens(), Says("c"))
    assert actor.heard == ["open", "a", "b", "c"]
    assert actor.counter.count == 1


def test_an_actor_that_ends_before_it_opens_handles_nothing() -> None:
    """Lost: a fault at the end of a session that never began, in the log of an operator."""
    assert told(Says("a"), ActorExitRequest()).heard == []


def test_what_is_stashed_waits_and_keeps_its_order() -> None:
    """Lost: an answer, or its turn, of what was asked while a child was being spawned."""
    actor = told(Opens(), Says("later"), Says("other"), Says("later"), Says("now"), Says("last"))
    assert actor.heard == ["open", "other", "now", "later", "later", "last"]


def test_a_fault_is_logged_and_mended(caplog: pytest.LogCaptureFixture) -> None:
    """Lost: the watch of a process: Thespian runs a message that raised again, then forgets what it watched."""
    with caplog.at_level(logging.ERROR, "exec_server.actors"):
        actor = told(Opens(), Fails())
    assert actor.heard == ["open", "mended Fails"]
    assert "Listener failed at Fails" in caplog.text


def test_a_callback_that_fails_keeps_no_other_from_its_time(caplog: pytest.LogCaptureFixture) -> None:
    """Lost: every deadline that fell due with the one whose callback has a fault."""
    actor = told(Opens())
    wakeups: list[Any] = []
    actor.deadlines._wakeup_after = lambda delta, payload: wakeups.append(payload)
    actor.deadlines.set("a", 0, lambda: 1 / 0)
    actor.deadlines.set("b", 0, lambda: actor.heard.append("b"))
    actor.receiveMsg_WakeupMessage(typing.cast(Any, type("Wakeup", (), {"payload": wakeups[0]})()), None)
    assert actor.heard == ["open", "mended Wakeup", "b"]


def test_a_message_that_nobody_handles_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Lost: a message to the wrong actor, without a word to whoever looks for it."""
    with caplog.at_level(logging.ERROR, "exec_server.actors"):
        told(Opens(), Done(None, None, None, None))  # type: ignore[arg-type]
    assert "Listener has no handler for Done" in caplog.text


OWN: dict[type[BaseActor], tuple[Any, list[type]]] = {
    RouterActor: (m.ToRouter, []),
    ConnectionActor: (m.ToSession, []),
    ProcessActor: (m.ToProcess, [CloseStreams]),
    BridgeActor: (m.ToBridge, [Open, TakeMore, *typing.get_args(TransportEvent)]),
    FilesActor: (m.ToService, [Done, Looked]),
    HttpActor: (m.ToService, list(typing.get_args(Response))),
    EnvironmentActor: (m.ToService, [LookedUp]),
    AuditActor: (m.ToAudit, []),
}
"""Each actor with the union of what others send to it, and what it gets from itself, its threads, its transport."""


@pytest.mark.parametrize("actor", OWN, ids=lambda actor: actor.__name__)
def test_an_actor_handles_exactly_what_it_is_sent(actor: type[BaseActor]) -> None:
    """Lost: a message without a handler, which only a user would notice; and the sense of a list that lies."""
    union, own = OWN[actor]
    assert actor.handled() == {each.__name__ for each in (*typing.get_args(union), *own)}


def test_every_message_is_sent_to_somebody() -> None:
    """Lost: messages that nothing takes any more, and a reader's time with them."""
    unions = (m.ToProgram, m.ToRouter, m.ToSession, m.ToProcess, m.ToBridge, m.ToService, m.ToAudit)
    taken = {each.__name__ for union in unions for each in typing.get_args(union)}
    assert taken == {name for name in m.__all__ if not name.startswith("To") and name != "Address"}
