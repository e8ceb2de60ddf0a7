"""wakeupAfter: on time, in order, with its payload, and gone with its actor."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from thespian.actors import ActorExitRequest, Thespian_StatusReq

from tests.actors.engine.script import Script, answer, settled


def test_wakeups_come_in_the_order_of_their_deadlines_and_not_early(run):
    """Timeouts of commands must neither be lost nor come before their time."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        done = asyncio.get_running_loop().create_future()
        woken = []

        def on_wakeup(actor, message):
            woken.append((message.payload, message.delayPeriod, time.monotonic() - start))
            if len(woken) == 4:
                done.set_result(None)

        def begin(actor, sender):
            actor.on_wakeup = on_wakeup
            actor.wakeupAfter(0.06, "late")
            actor.wakeupAfter(timedelta(milliseconds=30), "middle")
            actor.wakeupAfter(0.03, "middle too")
            actor.wakeupAfter(0, {"now": True})

        start = time.monotonic()
        engine.post(actor, begin)
        await asyncio.wait_for(done, 5)
        assert [payload for payload, _, _ in woken] == [{"now": True}, "middle", "middle too", "late"]
        for _, period, elapsed in woken:
            seconds = period.total_seconds() if isinstance(period, timedelta) else period
            assert elapsed >= seconds
        assert woken[1][1] == timedelta(milliseconds=30)

    run(scenario)


def test_wakeups_of_a_dead_actor_are_dropped_and_hold_no_memory(run):
    """A day-long timeout of a process that ended at once must not stay a day."""

    async def scenario(engine):
        keeper = engine.newPrimaryActor(Script, None, None)
        engine.post(keeper, lambda actor, sender: actor.wakeupAfter(86400, "kept"))
        for _ in range(50):
            actor = engine.newPrimaryActor(Script, None, None)
            engine.post(actor, lambda actor, sender: [actor.wakeupAfter(0.001 * n, n) for n in range(1000, 1010)])
            engine.post(actor, ActorExitRequest())
        await settled(engine)
        assert engine.live_actors == 1
        assert len(engine.timers.entries) < 100
        assert [entry[3].payload for entry in engine.timers.entries if entry[2].instance] == ["kept"]
        before = engine.dead_letters
        engine.run_timers()
        assert engine.dead_letters == before

    run(scenario)


def test_status_shows_pending_wakeups(run):
    """Whoever looks for the cause of a wait must see it."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        engine.post(actor, lambda actor, sender: actor.wakeupAfter(500, "x"))
        status = await engine.aask(actor, Thespian_StatusReq(), 5)
        assert len(status.pendingWakeups) == 1
        address, timer = status.pendingWakeups[0]
        assert address == actor
        assert 400 < timer.view().remaining().total_seconds() <= 500

    run(scenario)


def test_a_wakeup_asked_for_in_a_thread(run):
    """Thespian lets an actor's threads ask for wakeups."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        mine, done = [], asyncio.get_running_loop().create_future()

        def begin(actor, sender):
            actor.on_wakeup = lambda actor, message: done.set_result(message.payload)
            mine.append(actor)

        engine.post(actor, begin)
        await engine.aask(actor, answer(lambda _: None), 5)
        await asyncio.to_thread(mine[0].wakeupAfter, 0.001, "threaded")
        assert await asyncio.wait_for(done, 5) == "threaded"

    run(scenario)


def test_one_loop_timer_serves_all(run):
    """A thousand processes with timeouts must not mean a thousand timers of the loop."""

    async def scenario(engine):
        loop = asyncio.get_running_loop()
        actor = engine.newPrimaryActor(Script, None, None)
        assert engine._timer is None
        engine.post(actor, lambda actor, sender: [actor.wakeupAfter(100 + n) for n in range(1000)])
        await engine.aask(actor, answer(lambda _: None), 5)
        first = engine._timer
        engine.post(actor, lambda actor, sender: actor.wakeupAfter(200))
        await engine.aask(actor, answer(lambda _: None), 5)
        assert engine._timer is first
        assert first.when() < loop.time() + 101
        assert len(engine.timers.entries) == 1001

    run(scenario)
