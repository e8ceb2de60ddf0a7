"""The simulation must replay from its seed, explore orders, and keep real time out."""

from __future__ import annotations

import random
import time

import pytest
from thespian.actors import ThespianWatch

from actors.system import clock
from tests.actors.engine.script import Script, answer, seen
from tests.support.simulation import Simulation


def race(seed):
    """Two actors write three messages each to a third; the order in which they arrive."""
    with Simulation(seed) as simulation:
        target = simulation.createActor(Script)
        for name in "ab":
            writer = simulation.createActor(Script)
            for n in range(3):
                simulation.tell(writer, lambda actor, sender, m=(name, n): actor.send(target, m))
        simulation.run_until_idle()
        return simulation.ask(target, seen)


def test_a_seed_is_replayed_and_seeds_differ():
    """A failure seen once can be looked at again, and other orders are tried at all."""
    orders = {seed: race(seed) for seed in range(30)}
    assert {seed: race(seed) for seed in range(30)} == orders
    assert len({tuple(order) for order in orders.values()}) > 5


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_a_pair_is_kept(seed):
    """Otherwise it would find races that cannot happen."""
    order = race(seed)
    for name in "ab":
        assert [n for who, n in order if who == name] == [0, 1, 2]


def test_time_is_virtual_and_jumps_from_wakeup_to_wakeup():
    """80 seconds of a detached session take no time, and the actor reads the same clock."""
    began = time.monotonic()
    with Simulation(1) as simulation:
        actor, probe = simulation.createActor(Script), simulation.probe()
        start = simulation.now

        def begin(actor, sender):
            actor.on_wakeup = lambda actor, message: actor.send(sender, (message.payload, clock.now()))
            for seconds in (80, 0.5, 3600):
                actor.wakeupAfter(seconds, seconds)

        simulation.tell(actor, begin, sender=probe)
        simulation.run_until_idle()
        assert probe.messages == []
        simulation.advance(79.9)
        assert probe.take() == [(0.5, start + 0.5)]
        simulation.advance(0.2)
        assert probe.take() == [(80, start + 80)]
        simulation.run_until(start + 4000)
        assert probe.take() == [(3600, start + 3600)]
        assert simulation.now == start + 4000
        assert clock.now() == simulation.now
    assert abs(clock.now() - time.monotonic()) < 1
    assert time.monotonic() - began < 30


def test_the_clock_is_given_back_even_after_a_failure():
    """One failing simulation must not stop the time of every test after it."""
    with pytest.raises(ValueError, match="in the middle"), Simulation(1):
        raise ValueError("in the middle")
    assert abs(clock.now() - time.monotonic()) < 1
    with clock.replaced(lambda: 5.0):
        assert clock.now() == 5.0
    assert abs(clock.now() - time.monotonic()) < 1


def test_a_probe_records_and_says_what_reached_nobody():
    """What an actor says to the outside is what a test looks at."""
    with Simulation(1) as simulation:
        actor, probe = simulation.createActor(Script), simulation.probe()
        simulation.tell(actor, answer(lambda _: "text"), sender=probe)
        simulation.tell(actor, answer(lambda _: 7), sender=probe)
        simulation.run_until_idle()
        assert probe.received == [("text", actor), (7, actor)]
        assert probe.of(int) == [7]
        simulation.tell(simulation.createActor("tests.actors.engine.script.Fails"), "lost", sender=probe)
        assert probe.undelivered == ["lost"]
        with pytest.raises(AssertionError, match="no answer"):
            simulation.ask(actor, "nothing")
        assert simulation.instance(actor).seen == ["nothing"]


def test_descriptors_are_played():
    """Watches are kept as on a loop; the test says when one is ready."""
    with Simulation(1) as simulation:
        actor = simulation.createActor(Script)

        def begin(actor, sender):
            actor.on_watch = lambda actor, message: actor.seen.append(message.ready)
            return ThespianWatch([41, 42])

        simulation.tell(actor, begin)
        simulation.run_until_idle()
        assert set(simulation.watched) == {41, 42}
        simulation.fd_is_ready(42)
        simulation.run_until_idle()
        assert simulation.instance(actor).seen == [[42]]
        assert simulation.watched == {}


def test_an_endless_conversation_is_an_error_and_not_a_hang():
    """Two actors that answer each other for ever fail the test that finds them."""
    simulation = Simulation(random.Random(4))
    actor = simulation.createActor(Script)

    def again(actor, sender):
        actor.send(actor.myAddress, again)

    simulation.tell(actor, again)
    with pytest.raises(AssertionError, match="still busy after 100"):
        simulation.run_until_idle(limit=100)
    simulation.life.bury_all()
    simulation.close()


def test_shuffle_mixes_outside_actions_with_deliveries():
    """A resume that arrives in the middle of an exit is one of the orders."""
    orders = set()
    for seed in range(30):
        with Simulation(seed) as simulation:
            actor = simulation.createActor(Script)
            simulation.tell(actor, lambda actor, sender: actor.send(actor.myAddress, "inner"))
            simulation.shuffle([lambda s=simulation, a=actor: s.tell(a, "outer")])
            simulation.run_until_idle()
            orders.add(tuple(simulation.ask(actor, seen)))
    assert orders == {("inner", "outer"), ("outer", "inner")}
