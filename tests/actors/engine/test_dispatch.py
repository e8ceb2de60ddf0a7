"""Handlers: the one way from a message to the function that handles it, and what an actor class may say about it."""

from __future__ import annotations

import logging
import os

import pytest
from thespian.actors import ActorExitRequest, ActorTypeDispatcher, ChildActorExited, ThespianWatch

from tests.actors.engine.script import Fails, Script, answer, seen


class Base(ActorTypeDispatcher):
    def receiveMsg_object(self, message, sender):
        self.send(sender, "object")

    def receiveMsg_int(self, message, sender):
        self.send(sender, "base int")


class Derived(Base):
    def receiveMsg_bool(self, message, sender):
        return self.SUPER

    def receiveMsg_int(self, message, sender):
        return self.SUPER if message > 10 else self.send(sender, "derived int")


@pytest.mark.parametrize(
    ("message", "expected"),
    [(3, "derived int"), (11, "base int"), (True, "derived int"), ("text", "object"), (None, "object")],
)
def test_dispatch_is_that_of_thespian(run, message, expected):
    """The cached table must find the method Thespian would, SUPER included."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Derived, None, None)
        assert await engine.aask(actor, message, 5) == expected

    run(scenario)


class OwnWay(ActorTypeDispatcher):
    """Finds its handlers itself, counts how often it is asked, and keeps its failures."""

    asked: list[type] = []  # noqa: RUF012

    def __init__(self):
        self.failures = []

    @classmethod
    def handler_for(cls, message_class):
        cls.asked.append(message_class)
        if message_class is ChildActorExited:
            return lambda actor, message, sender: 1 / 0
        if message_class in (ActorExitRequest, int):
            return lambda actor, message, sender: int("no number")
        return lambda actor, message, sender: actor.send(sender, (message, list(actor.failures)))

    def receiveMessage(self, message, sender):
        raise AssertionError("for other system bases only")

    def handler_failed(self, message, sender, error):
        self.failures.append((message.__class__, str(error)))
        if isinstance(message, int) and message < 0:
            raise ValueError("and cannot make good")


def test_a_class_finds_its_handlers_itself_and_is_asked_once(run):
    """Lost: the one look-up a message, or a handler of our own base that is never called."""

    async def scenario(engine):
        OwnWay.asked.clear()
        actors = [engine.newPrimaryActor(OwnWay, None, None) for _ in range(2)]
        for actor in actors:
            for _ in range(3):
                assert await engine.aask(actor, "text", 5) == ("text", [])
        assert OwnWay.asked == [str]

    run(scenario)


def test_a_class_makes_good_its_failures_itself(run, caplog):
    """Lost: a request that is run a second time, or poison to a client's bridge in place of an error."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(OwnWay, None, None)
        poisoned = engine.newPrimaryActor(Script, None, None)
        for message in (1, -1, ChildActorExited(poisoned)):
            engine.mail.send(poisoned, actor, message)
        failures = [(int, "invalid literal for int() with base 10: 'no number'")] * 2
        failures.append((ChildActorExited, "division by zero"))
        assert await engine.aask(actor, "text", 5) == ("text", failures)
        assert await engine.aask(poisoned, seen, 5) == []
        engine.post(actor, ActorExitRequest())
        assert await engine.aask(actor, "gone", 5) is None

    with caplog.at_level(logging.WARNING, "exec_server.engine"):
        run(scenario)
    assert "could not make good its failure on int" in caplog.text


class FindsNothing(ActorTypeDispatcher):
    @classmethod
    def handler_for(cls, message_class):
        raise LookupError(f"nothing handles {message_class.__name__}")


def test_a_class_that_finds_no_handler_fails_at_that_message_only(run):
    """Lost: the turn of everybody else, and an actor that can be told to exit."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(FindsNothing, None, None)
        poison = await engine.aask(actor, "text", 5)
        assert "nothing handles str" in poison.details
        engine.post(actor, ActorExitRequest())
        assert await engine.aask(actor, "gone", 5) is None

    run(scenario)


class Watching(OwnWay):
    def handler_failed(self, message, sender, error):
        return ThespianWatch([self.fd])

    @classmethod
    def handler_for(cls, message_class):
        def begin(actor, message, sender):
            actor.fd = message
            raise ValueError("begun")

        return begin


def test_what_makes_good_a_failure_says_what_is_watched(run):
    """Lost: all output of a process after one failed request."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Watching, None, None)
        reader, writer = os.pipe()
        engine.post(actor, reader)
        await engine.aask(engine.newPrimaryActor(Script, None, None), answer(lambda _: None), 5)
        assert list(engine.watches.owners) == [reader]
        engine.post(actor, ActorExitRequest())
        await engine.aask(actor, 0, 5)
        assert not engine.watches.owners
        os.close(reader)
        os.close(writer)

    run(scenario)


class Leader(Script):
    begins_group = True


def test_who_shares_a_place_in_the_queue(run):
    """Lost: turns for other sessions, were the processes of each not in its group."""

    async def scenario(engine):
        outside, other = (engine.newPrimaryActor(Script, None, None) for _ in range(2))
        child = await engine.aask(outside, lambda a, s: a.send(s, a.createActor(Script)), 5)
        leader = await engine.aask(child, lambda a, s: a.send(s, a.createActor(Leader)), 5)
        follower = await engine.aask(leader, lambda a, s: a.send(s, a.createActor(Script)), 5)
        await engine.aask(child, lambda a, s: a.send(s, a.createActor(Fails)), 5)
        assert child._cell.group is outside._cell.group
        assert other._cell.group is not outside._cell.group
        assert leader._cell.group is not child._cell.group
        assert follower._cell.group is leader._cell.group

    run(scenario)
