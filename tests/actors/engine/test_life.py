"""Creating actors and ending them: children, exit requests, names, capabilities, shutdown."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref

import pytest
from thespian.actors import (
    Actor,
    ActorExitRequest,
    ActorSystem,
    ActorSystemFailure,
    ActorTypeDispatcher,
    ChildActorExited,
    DeadEnvelope,
    InvalidActorSpecification,
    NoCompatibleSystemForActor,
    Thespian_StatusReq,
    requireCapability,
)

from actors.engine import engine_of
from tests.actors.engine.script import Fails, Script, answer, seen, settled


@requireCapability("gpu")
class NeedsGpu(ActorTypeDispatcher):
    def receiveMsg_str(self, message, sender):
        self.send(sender, message)


class ByRequirement(ActorTypeDispatcher):
    @staticmethod
    def actorSystemCapabilityCheck(capabilities, requirements):
        return requirements.get("zone") == capabilities.get("zone")

    def receiveMsg_str(self, message, sender):
        self.send(sender, message)


class BrokenCheck(Actor):
    @staticmethod
    def actorSystemCapabilityCheck(capabilities, requirements):
        raise ValueError("no idea")


class Knows(ActorTypeDispatcher):
    def __init__(self, requirements, capabilities):
        self.told = (requirements, capabilities["zone"])

    def receiveMsg_str(self, message, sender):
        self.send(sender, self.told)


def make(actor_class=Script, **arguments):
    """A function that makes a Script create a child and answer with its address."""
    return answer(lambda actor: actor.createActor(actor_class, **arguments))


def test_an_actor_is_created_by_class_and_by_name(run):
    """Rooms that must not import each other name classes by string."""

    async def scenario(engine):
        parent = engine.newPrimaryActor("tests.actors.engine.script.Script", None, None)
        child = await engine.aask(parent, make("tests.actors.engine.script.Script"), 5)
        assert await engine.aask(child, answer(lambda actor: actor.globalName), 5) is None

    run(scenario)


@pytest.mark.parametrize(
    ("actor_class", "error"),
    [
        ("Script", InvalidActorSpecification),
        ("no.such.module.Script", ImportError),
        ("tests.actors.engine.script.Missing", InvalidActorSpecification),
        (NeedsGpu, NoCompatibleSystemForActor),
        (BrokenCheck, NoCompatibleSystemForActor),
    ],
)
def test_what_cannot_be_created_is_an_error_outside_and_an_exited_child_inside(run, actor_class, error):
    """A session that asks for what is not there must hear of it, not wait for ever."""

    async def scenario(engine):
        with pytest.raises(error):
            engine.newPrimaryActor(actor_class, None, None)
        parent = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(parent, make(actor_class), 5)
        assert await engine.aask(parent, seen, 5) == [ChildActorExited(child)]
        assert await engine.aask(child, "anyone?", 5) is None

    run(scenario)


def test_a_constructor_that_raises_is_an_exited_child(run, caplog):
    """As above; and the operator finds the traceback."""

    async def scenario(engine):
        parent = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(parent, make(Fails), 5)
        assert await engine.aask(parent, seen, 5) == [ChildActorExited(child)]
        alone = engine.newPrimaryActor(Fails, None, None)
        assert await engine.aask(alone, "anyone?", 5) is None

    run(scenario)
    assert "no such actor today" in caplog.text


def test_constructors_get_what_they_name(run):
    """Thespian passes capabilities and requirements to constructors that ask for them."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Knows, {"zone": "here"}, None)
        assert await engine.aask(actor, "what?", 5) == ({"zone": "here"}, "west")

    run(scenario, {"zone": "west"})


def test_requirements_choose_and_capabilities_that_go_end_the_actor(run):
    """Placement: an actor runs only where it can, and not longer than that."""

    async def scenario(engine):
        with pytest.raises(NoCompatibleSystemForActor):
            engine.newPrimaryActor(ByRequirement, {"zone": "east"}, None)
        actor = engine.newPrimaryActor(ByRequirement, {"zone": "west"}, None)
        other = engine.newPrimaryActor(Script, None, None)
        assert await engine.aask(actor, "alive", 5) == "alive"
        engine.life.update_capability("zone", "north")
        assert await engine.aask(actor, "alive", 5) is None
        engine.life.update_capability("gpu", True)
        gpu = engine.newPrimaryActor(NeedsGpu, None, None)
        assert await engine.aask(gpu, "alive", 5) == "alive"
        engine.post(other, lambda actor, sender: actor.updateCapability("gpu"))
        await engine.aask(other, answer(lambda _: None), 5)
        assert await engine.aask(gpu, "alive", 5) is None

    run(scenario, {"zone": "west"})


def test_a_global_name_is_one_actor_until_it_ends(run):
    """The router of a server is found by name."""

    async def scenario(engine):
        named = engine.newPrimaryActor(Script, None, "router")
        parent = engine.newPrimaryActor(Script, None, None)
        assert await engine.aask(parent, make(globalName="router"), 5) == named
        assert engine.newPrimaryActor(Fails, None, "router") == named
        assert await engine.aask(named, answer(lambda actor: actor.globalName), 5) == "router"
        engine.post(named, ActorExitRequest())
        await engine.aask(named, answer(lambda _: None), 5)
        again = await engine.aask(parent, make(globalName="router"), 5)
        assert again != named
        engine.post(parent, ActorExitRequest())
        assert await engine.aask(again, answer(lambda _: "lives on"), 5) == "lives on"

    run(scenario)


def test_a_recursive_exit_ends_children_before_their_parent(run):
    """The end of a session ends its processes, and the session is there until they are gone."""

    async def scenario(engine):
        top = engine.newPrimaryActor(Script, None, None)
        order = []

        def grow(actor, sender, depth=0):
            actor.on_exit = lambda actor: order.append(("asked", depth))
            actor.on_child_exit = lambda actor, message: order.append(("child gone", depth))
            if depth < 3:
                child = actor.createActor(Script)
                actor.send(child, lambda actor, sender: grow(actor, sender, depth + 1))
            else:
                done.set_result(None)

        done = asyncio.get_running_loop().create_future()
        engine.post(top, grow)
        await asyncio.wait_for(done, 5)
        engine.post(top, ActorExitRequest())
        await settled(engine)
        assert order == [("asked", n) for n in range(4)] + [("child gone", n) for n in (2, 1, 0)]

    run(scenario)


def test_a_non_recursive_exit_leaves_children_to_the_system(run):
    """They live on, and the shutdown still finds them (`run` asserts that none is left)."""

    async def scenario(engine):
        parent = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(parent, make(), 5)
        engine.post(parent, ActorExitRequest(recursive=False))
        assert await engine.aask(parent, answer(lambda _: None), 5) is None
        assert await engine.aask(child, answer(lambda _: "alive"), 5) == "alive"
        assert engine.live_actors == 1
        status = await engine.aask(engine.system.systemAddress, Thespian_StatusReq(), 5)
        assert status.childActors == [child]

    run(scenario)


def test_exit_during_create(run):
    """A child that is told to exit in the handler that made it ends like any other; one made while exiting never is."""

    async def scenario(engine):
        parent = engine.newPrimaryActor(Script, None, None)
        made = []

        def make_and_end(actor, sender):
            child = actor.createActor(Script)
            actor.send(child, ActorExitRequest())
            actor.send(child, "too late")
            made.append(child)

        def on_exit(actor):
            made.append(actor.createActor(Script))

        engine.post(parent, make_and_end)
        await engine.aask(parent, answer(lambda _: None), 5)
        assert await engine.aask(parent, seen, 5) == [ChildActorExited(made[0])]
        engine.post(parent, lambda actor, sender: setattr(actor, "on_exit", on_exit))
        engine.post(parent, lambda actor, sender: actor.createActor(Script))
        engine.post(parent, ActorExitRequest())
        assert await engine.aask(parent, "gone?", 5) is None
        assert await engine.aask(made[1], "never there", 5) is None
        assert engine.live_actors == 0

    run(scenario)


def test_messages_behind_an_exit_request_are_dead_letters(run):
    """Whoever waits for an answer to them must be able to learn that none will come."""

    async def scenario(engine):
        handler = engine.newPrimaryActor(Script, None, None)
        engine.post(handler, lambda actor, sender: actor.handleDeadLetters())
        await engine.aask(handler, answer(lambda _: None), 5)
        target = engine.newPrimaryActor(Script, None, None)
        engine.post(target, ActorExitRequest())
        engine.post(target, "behind")
        waiting = asyncio.ensure_future(engine.aask(target, "a question", None))
        assert await asyncio.wait_for(waiting, 5) is None
        engine.post(target, "after")
        letters = await engine.aask(handler, seen, 5)
        assert letters == [DeadEnvelope(target, m) for m in ("behind", "a question", "after")]
        assert engine.dead_letters == 3
        engine.post(handler, lambda actor, sender: actor.handleDeadLetters(False))
        await engine.aask(handler, answer(lambda _: None), 5)
        engine.post(target, "nobody hears")
        assert len(await engine.aask(handler, seen, 5)) == 3

    run(scenario)


def test_sys_exit_ends_the_actor_and_no_more(run):
    """On other bases it ends the actor's process; here it must not end the server."""

    async def scenario(engine):
        parent = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(parent, make(), 5)
        grandchild = await engine.aask(child, make(), 5)
        engine.post(child, lambda actor, sender: sys.exit(3))
        await settled(engine)
        assert await engine.aask(parent, seen, 5) == [ChildActorExited(child)]
        assert await engine.aask(grandchild, "gone", 5) is None

    run(scenario)


def test_a_dead_actor_is_collected(run):
    """Ten thousand commands a day must leave nothing behind, without waiting for the cycle collector."""

    async def scenario(engine):
        parent = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(parent, make(), 5)
        instance = weakref.ref(child._cell.instance)
        cells = len(engine.mail.cells)
        engine.post(child, ActorExitRequest())
        await engine.aask(parent, seen, 5)
        await engine.aask(parent, lambda actor, sender: actor.seen.clear() or actor.send(sender, 1), 5)
        assert instance() is None
        assert len(engine.mail.cells) == cells - 1

    gc.disable()
    try:
        run(scenario)
    finally:
        gc.enable()


def test_an_actor_shuts_the_system_down(run):
    """Thespian's actorSystemShutdown: everybody exits, and nothing new is made."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        engine.newPrimaryActor(Script, None, None)
        engine.post(actor, lambda actor, sender: actor.actorSystemShutdown())
        await settled(engine)
        with pytest.raises(ActorSystemFailure):
            engine.newPrimaryActor(Script, None, None)

    run(scenario)


def test_shutdown_ends_actors_that_are_made_or_orphaned_meanwhile(run):
    """Nothing outlives a shutdown: no child process of a server that is gone."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(actor, make(), 5)

        def on_exit(actor):
            actor.createActor(Script, globalName="late")
            actor.createActor(Script)

        engine.post(actor, lambda actor, sender: setattr(actor, "on_exit", on_exit))
        engine.post(child, lambda actor, sender: actor.createActor(Script))
        await engine.aask(child, answer(lambda _: None), 5)
        waiting = asyncio.ensure_future(engine.aask(child, lambda actor, sender: None, None))
        await asyncio.sleep(0)
        await engine.ashutdown()
        assert engine.live_actors == 0
        assert await asyncio.wait_for(waiting, 5) is None
        assert not engine.post(child, "after")
        await engine.ashutdown()

    run(scenario)


def test_shutdown_on_the_thread_of_the_loop(run):
    """`system.shutdown()` is what Thespian's users call."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        await engine.aask(actor, make(), 5)
        engine.system.shutdown()
        assert engine.live_actors == 0

    run(scenario)


def test_an_actor_that_goes_on_for_ever_does_not_hold_up_the_shutdown(run, monkeypatch, caplog):
    """A stop of the server takes a bounded time."""
    monkeypatch.setattr("actors.engine.asyncio_base.SHUTDOWN_SECONDS", 0.2)

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        child = await engine.aask(actor, make(), 5)

        def on_exit(actor):
            # The parent waits for a child that it wrongly believes to have.
            actor._myRef.children[object()] = child._cell

        engine.post(actor, lambda actor, sender: setattr(actor, "on_exit", on_exit))
        await engine.aask(actor, answer(lambda _: None), 5)
        await engine.ashutdown()
        assert engine.live_actors == 0

    run(scenario)
    assert "had not exited" in caplog.text


def test_two_systems_do_not_meet(run):
    """An address of one server means nothing in another of the same process, and its messages are dead letters."""

    async def scenario(engine):
        other = engine_of(ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True))
        there = other.newPrimaryActor(Script, None, None)
        assert await engine.aask(there, "hello", 5) is None
        assert engine.dead_letters == 1
        assert await other.aask(there, seen, 5) == []
        await other.ashutdown()

    run(scenario)


def test_engine_of_refuses_other_bases():
    """A wrong base must be noticed where it is passed, not at the first attribute that is missing."""
    system = ActorSystem("simpleSystemBase", logDefs=False, transientUnique=True)
    with pytest.raises(TypeError, match="not a system of this engine"):
        engine_of(system)
    system.shutdown()
