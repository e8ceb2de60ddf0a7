"""Order, fairness between actors and with I/O, the hook after the turn, and what is counted."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time

import pytest
from thespian.actors import Thespian_StatusReq

from actors.engine import mail, turns
from tests.actors.engine.script import Script, answer, seen


def test_messages_of_a_sender_arrive_in_order(run):
    """Otherwise output would reach a client shuffled."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        sender = engine.newPrimaryActor(Script, None, None)
        count = 112
        engine.post(sender, lambda actor, _: [actor.send(target, n) for n in range(count)])
        await engine.aask(sender, answer(lambda _: "sent"), 5)
        assert await engine.aask(target, seen, 5) == list(range(count))

    run(scenario)


def test_a_message_is_the_same_object_for_both(run):
    """Copying every chunk of output would halve the throughput."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        message = object()
        engine.post(target, message)
        assert (await engine.aask(target, seen, 5))[0] is message

    run(scenario)


def test_an_actor_that_messages_itself_without_end_starves_nobody(run):
    """One busy session must not stop the others, nor the sockets."""

    async def scenario(engine):
        spinner = engine.newPrimaryActor(Script, None, None)
        other = engine.newPrimaryActor(Script, None, None)

        def spin(actor, _):
            actor.send(actor.myAddress, spin)

        engine.post(spinner, spin)
        for _ in range(5):
            assert await engine.aask(other, answer(lambda _: "alive"), 5) == "alive"
        reader, writer = os.pipe()
        got = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(reader, lambda: got.done() or got.set_result(None))
        os.write(writer, b"x")
        await asyncio.wait_for(got, 5)
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
        os.close(writer)

    run(scenario)


def test_a_long_mailbox_is_worked_off_in_bounded_turns(run, monkeypatch):
    """A burst of requests must not keep the loop from its sockets until all are done."""
    monkeypatch.setattr(turns, "VISIT_SECONDS", 0.0)

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        count = 0
        real = engine.turns.run

        def counted():
            nonlocal count
            count += 1
            real()

        engine.turns.run = counted
        engine.turns.turn_seconds = 0.0
        for n in range(100):
            engine.post(target, n)
        assert len(await engine.aask(target, seen, 5)) == 100
        assert count >= 100

    run(scenario)


def test_depth_tells_what_waits(run, caplog, monkeypatch):
    """Whoever lets messages in must be able to see that they pile up."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        for n in range(50):
            engine.post(target, n)
        assert engine.mail.depth(target) == 50
        await engine.aask(target, seen, 5)
        assert engine.mail.depth(target) == 0
        assert engine.deepest_mailbox == 51

    monkeypatch.setattr(mail, "MAILBOX_ALARM", 40)
    with caplog.at_level(logging.WARNING, "exec_server.engine"):
        run(scenario)
    assert [r.message for r in caplog.records if "51 messages wait for" in r.message]


def test_after_turn_runs_once_at_the_end_of_the_turn(run):
    """Transports write what a turn produced in one go."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        engine.turns.turn_seconds = 60.0  # so that a busy machine does not end the turn between the two
        events = []

        def first(actor, sender):
            engine.call_after_turn(lambda: events.append("flush"))
            actor.send(actor.myAddress, second)

        def second(actor, sender):
            events.append("second")

        engine.post(target, first)
        await engine.aask(target, answer(lambda _: None), 5)
        assert events == ["second", "flush"]
        await engine.aask(target, answer(lambda _: None), 5)
        assert events == ["second", "flush"]

    run(scenario)


def test_after_turn_without_a_turn_and_after_a_failing_callback(run, caplog):
    """A flush asked for while nothing happens comes soon, and a broken one takes none with it."""

    async def scenario(engine):
        done = asyncio.get_running_loop().create_future()
        engine.call_after_turn(lambda: 1 / 0)
        engine.call_after_turn(lambda: engine.call_after_turn(lambda: done.set_result(None)))
        await asyncio.wait_for(done, 5)

    run(scenario)
    assert "a callback after the turn failed" in caplog.text


def test_post_threadsafe_and_send_from_a_thread(run):
    """Results of a thread pool reach the actor that asked for them, in order."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        mine = []
        engine.post(target, lambda actor, _: mine.append(actor))
        await engine.aask(target, answer(lambda _: None), 5)

        def work():
            for n in range(200):
                engine.post_threadsafe(target, n)
            for n in range(200, 400):
                mine[0].send(target, n)
            mine[0].send(target, lambda actor, _: done.set_result(list(actor.seen)))

        done = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=work)
        thread.start()
        assert await asyncio.wait_for(done, 10) == list(range(400))
        thread.join()

    run(scenario)


def test_creating_an_actor_on_another_thread_is_refused(run):
    """It would corrupt the engine's books; the caller must hear of it."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)
        mine = []
        engine.post(target, lambda actor, _: mine.append(actor))
        await engine.aask(target, answer(lambda _: None), 5)
        with pytest.raises(RuntimeError, match="outside the engine's thread"):
            await asyncio.to_thread(mine[0].createActor, Script)

    run(scenario)


def test_a_slow_handler_is_logged_with_actor_and_message(run, caplog):
    """An operator who sees latency must be able to find who causes it."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)

        def slow(actor, sender):
            time.sleep(turns.SLOW_HANDLER_SECONDS * 1.2)
            actor.send(sender, "done")

        assert await engine.aask(target, slow, 5) == "done"

    run(scenario)
    lines = [r.getMessage() for r in caplog.records if r.name == "exec_server.engine"]
    assert any("tests.actors.engine.script.Script" in line and "over function" in line for line in lines)


def test_handlers_that_take_cpu_time_are_counted_by_class(run):
    """The count on the way of an output chunk is how a slow path is noticed; sleeping is not CPU time."""

    async def scenario(engine):
        target = engine.newPrimaryActor(Script, None, None)

        def burn(actor, sender):
            end = time.thread_time() + turns.SLOW_CPU_SECONDS * 1.5
            while time.thread_time() < end:
                pass

        engine.post(target, burn)
        engine.post(target, burn)
        engine.post(target, lambda actor, sender: time.sleep(turns.SLOW_CPU_SECONDS * 3))
        await engine.aask(target, answer(lambda _: None), 5)
        status = await engine.aask(engine.system.systemAddress, Thespian_StatusReq(), 5)
        assert engine.turns.slow_handlers == {("tests.actors.engine.script.Script", "function"): 2}
        assert status.miscKeyVals["slow handler tests.actors.engine.script.Script function"] == 2

    run(scenario, {"Count Slow Handlers": True})


def test_counting_is_off_unless_asked_for(run):
    """It costs a system call a message."""

    async def scenario(engine):
        assert not engine.turns.count_slow_handlers

    run(scenario)
