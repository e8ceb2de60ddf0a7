"""Handlers that fail, questions from the loop, and Thespian's blocking calls from threads."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import threading
import time

import pytest
from thespian.actors import ActorExitRequest, ActorSystem, ActorTypeDispatcher, PoisonMessage, ThespianWatch

from actors.engine import engine_of
from tests.actors.engine.script import Script, answer, seen


class Message:
    def __init__(self):
        self.parts = []


class FailsOnMessage(ActorTypeDispatcher):
    def __init__(self):
        self.attempts = []

    def receiveMsg_Message(self, message, sender):
        self.attempts.append(message)
        message.parts.append(len(self.attempts))
        raise ValueError("cannot")

    def receiveMsg_str(self, message, sender):
        self.send(sender, self.attempts)


def test_a_failing_handler_is_tried_again_with_a_copy_and_then_the_sender_gets_poison(run):
    """Thespian's promise: the sender learns that its message cannot be handled, and why."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(FailsOnMessage, None, None)
        message = Message()
        poison = await engine.aask(actor, message, 5)
        assert isinstance(poison, PoisonMessage)
        assert poison.poisonMessage is message
        assert "ValueError: cannot" in poison.details
        first, second = await engine.aask(actor, "attempts", 5)
        assert first is message
        assert second is not message

    run(scenario)


def test_poison_is_not_answered_with_poison(run):
    """Two actors that fail on everything would otherwise write to each other for ever."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)

        def fail(actor, sender):
            raise ValueError("cannot")

        engine.post(actor, PoisonMessage(fail))
        failing = engine.newPrimaryActor(FailsOnMessage, None, None)
        engine.mail.send(actor, failing, Message())
        await engine.aask(failing, "attempts", 5)
        first, second = await engine.aask(actor, seen, 5)
        assert isinstance(first, PoisonMessage)
        assert isinstance(second.poisonMessage, Message)

    run(scenario)


def test_an_exit_request_whose_handler_fails_ends_the_actor_all_the_same(run, caplog):
    """An actor that cannot clean up must not live for ever."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        engine.post(actor, lambda actor, sender: setattr(actor, "on_exit", lambda actor: 1 / 0))
        engine.post(actor, ActorExitRequest())
        assert await engine.aask(actor, "gone", 5) is None

    run(scenario)
    assert "ZeroDivisionError" in caplog.text


def test_aask_gives_up_after_its_timeout_and_leaves_nothing(run):
    """Every wait has an end, and a late answer goes nowhere."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        senders = []
        cells = len(engine.mail.cells)
        assert await engine.aask(actor, lambda actor, sender: senders.append(sender), 0.02) is None
        assert len(engine.mail.cells) == cells
        engine.post(actor, lambda actor, sender: actor.send(senders[0], "late"))
        await engine.aask(actor, answer(lambda _: None), 5)
        assert engine.dead_letters == 1

    run(scenario)


def test_a_cancelled_aask_leaves_nothing(run):
    """A client that goes away while its question is open must not leak an address."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        cells = len(engine.mail.cells)
        waiting = asyncio.ensure_future(engine.aask(actor, lambda actor, sender: None, None))
        await engine.aask(actor, answer(lambda _: None), 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(engine.mail.cells) == cells

    run(scenario)


def test_questions_do_not_get_each_others_answers(run):
    """Two requests at the same actor at once: each is answered with its own."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        held = []
        first = asyncio.ensure_future(engine.aask(actor, lambda actor, sender: held.append(sender), 5))
        second = asyncio.ensure_future(
            engine.aask(actor, lambda actor, sender: (actor.send(sender, 2), actor.send(held[0], 1), None)[2], 5)
        )
        assert await asyncio.gather(first, second) == [1, 2]

    run(scenario)


def test_blocking_calls_are_for_other_threads(run):
    """On the loop they would wait for themselves; in a thread they work as Thespian's users know them."""

    async def scenario(engine):
        system = engine.system
        actor = system.createActor(Script)
        with pytest.raises(RuntimeError, match="aask"):
            system.ask(actor, "x", 1)
        assert engine.mail.depth(actor) == 0
        with pytest.raises(RuntimeError, match="aask"):
            system.listen(1)
        system.tell(actor, "told")

        def outside():
            mine = system.createActor(Script)
            with system.private() as private:
                return (
                    private.ask(actor, seen, 5),
                    system.ask(mine, seen, 5),
                    system.ask(mine, lambda a, s: 0, 0.01),
                )

        assert await asyncio.to_thread(outside) == (["told"], [], None)

    run(scenario)


def test_a_handler_may_not_wait_for_the_loop_it_runs_on():
    """With a loop of its own too: an error beats a server that stands still."""
    system = ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True)
    other = system.createActor(Script)

    def ask(actor, sender):
        try:
            system.ask(other, seen, 1)
        except RuntimeError as error:
            actor.send(sender, str(error))

    assert "aask" in system.ask(system.createActor(Script), ask, 5)
    system.shutdown()


def test_several_threads_share_a_loop_that_nobody_else_runs():
    """Each thread with a context of its own gets its own answers, whoever of them runs the loop."""
    system = ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True)
    actor = system.createActor(Script)
    results = {}

    def work(n):
        with system.private() as private:
            child = private.createActor(Script)
            results[n] = [private.ask(a, answer(lambda _, i=i: (n, i)), 10) for i in range(20) for a in (actor, child)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    assert system.listen(0.05) is None
    for thread in threads:
        thread.join(20)
    assert results == {n: [(n, i) for i in range(20) for _ in range(2)] for n in range(8)}
    system.shutdown()


def test_a_loop_of_its_own_catches_up_with_what_fell_due_between_calls():
    """Timers and descriptors are served by the next call, before its message."""
    system = ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True)
    actor = system.createActor(Script)
    reader, writer = os.pipe()

    def begin(actor, sender):
        actor.on_watch = lambda actor, message: actor.seen.append(os.read(reader, 10))
        actor.on_wakeup = lambda actor, message: (actor.seen.append("tick"), ThespianWatch([reader]))[1]
        actor.wakeupAfter(0.001)
        actor.send(sender, "begun")
        return ThespianWatch([reader])

    assert system.ask(actor, begin, 5) == "begun"
    os.write(writer, b"abc")
    engine = engine_of(system)
    while (due := engine.timers.next) is not None and due > time.monotonic():
        pass  # None where the first call took so long that it has served it already
    assert sorted(map(str, system.ask(actor, seen, 5))) == ["b'abc'", "tick"]
    system.shutdown()
    os.close(reader)
    os.close(writer)


def test_listen_gets_what_ask_did_not_take():
    """Thespian's outside has one mailbox: answers beyond the first wait for listen."""
    system = ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True)
    actor = system.createActor(Script)
    system.tell(actor, lambda actor, sender: [actor.send(sender, n) for n in range(3)])
    assert [system.listen(1), system.listen(1), system.listen(1), system.listen(0.01)] == [0, 1, 2, None]
    assert system.ask(actor, "no answer", 0.01) is None
    system.tell(actor, ActorExitRequest())
    assert system.ask(actor, "dead", None) is None
    system.shutdown()


def test_addresses_survive_copies_and_stay_unhashable(run):
    """Messages hold addresses; a retry copies them; and code that used one as a key would fail on other bases."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        assert copy.deepcopy([actor])[0] is actor
        assert copy.copy(actor) is actor
        by_value = pickle.loads(pickle.dumps(actor))
        assert by_value == actor
        assert actor == by_value
        assert await engine.aask(by_value, answer(lambda _: "found"), 5) == "found"
        with pytest.raises(TypeError):
            hash(actor)
        assert actor != engine.newPrimaryActor(Script, None, None)
        assert actor != "something else"

    run(scenario)
