"""ThespianWatch: what a handler returns is what is watched, at no cost while it stays the same."""

from __future__ import annotations

import asyncio
import os

from thespian.actors import ActorExitRequest, ThespianWatch, WatchMessage

from tests.actors.engine.script import Script, answer


class Readers:
    """Counts how often the engine adds and removes readers."""

    def __init__(self, engine):
        self.added = []
        self.removed = []
        add, remove = engine.watches._add_reader, engine.watches._remove_reader
        engine.watches._add_reader = lambda fd, cell: (self.added.append(fd), add(fd, cell))
        engine.watches._remove_reader = lambda fd: (self.removed.append(fd), remove(fd))


def watcher(reader, chunks, done=None):
    """A function that makes a Script read `reader`, a chunk a message, until `done` is resolved by an empty read."""

    def on_watch(actor, message):
        assert message.ready == [reader]
        chunk = os.read(reader, 4)
        chunks.append(chunk)
        if not chunk:
            done.set_result(None)
            return None
        return ThespianWatch([reader])

    def begin(actor, sender):
        actor.on_watch = on_watch
        return ThespianWatch([reader])

    return begin


def test_a_watch_delivers_until_the_descriptor_is_empty_and_is_armed_once(run):
    """Output of a child arrives whole, and a chunk does not cost two system calls for its watch."""

    async def scenario(engine):
        readers = Readers(engine)
        actor = engine.newPrimaryActor(Script, None, None)
        reader, writer = os.pipe()
        chunks, done = [], asyncio.get_running_loop().create_future()
        engine.post(actor, watcher(reader, chunks, done))
        os.write(writer, b"abcdefghij")
        os.close(writer)
        await asyncio.wait_for(done, 5)
        assert b"".join(chunks) == b"abcdefghij"
        await engine.aask(actor, answer(lambda _: None), 5)
        assert readers.added == [reader]
        assert readers.removed == [reader]
        os.close(reader)

    run(scenario)


def test_a_handler_that_returns_nothing_ends_the_watch(run):
    """Thespian's rule: an actor that relies on a watch must return it from every handler."""

    async def scenario(engine):
        readers = Readers(engine)
        actor = engine.newPrimaryActor(Script, None, None)
        reader, writer = os.pipe()
        engine.post(actor, watcher(reader, []))
        await engine.aask(actor, answer(lambda _: None), 5)
        assert readers.removed == [reader]
        assert engine.watches.owners == {}
        os.close(reader)
        os.close(writer)

    run(scenario)


def test_only_what_changed_is_added_and_removed(run):
    """A process that drops one stream must not re-register the other."""

    async def scenario(engine):
        readers = Readers(engine)
        actor = engine.newPrimaryActor(Script, None, None)
        pipes = [os.pipe() for _ in range(3)]
        a, b, c = (reader for reader, _ in pipes)
        for watched in ([a, b], [b, a], (a, b), [b, c], [b]):
            engine.post(actor, lambda actor, sender, watched=watched: ThespianWatch(watched))
        engine.post(actor, lambda actor, sender: (actor.send(sender, "x"), ThespianWatch([b]))[1])
        engine.post(actor, lambda actor, sender: done.set_result(None))
        done = asyncio.get_running_loop().create_future()
        await asyncio.wait_for(done, 5)
        await engine.aask(actor, answer(lambda _: None), 5)
        assert readers.added == [a, b, c]
        assert readers.removed == [a, c, b]
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])

    run(scenario)


async def worked_off(engine):
    """Until nobody has mail and nothing is to be told of a descriptor."""
    while engine.turns.has_work:
        await asyncio.sleep(0)


def test_mail_goes_before_what_descriptors_have_to_say(run):
    """A client that has enough must be able to stop all its children before any of them is read again."""

    async def scenario(engine):
        order = []
        reader, writer = os.pipe()
        actor = engine.newPrimaryActor(Script, None, None)

        def begin(actor, sender):
            actor.on_watch = on_watch
            actor.send(sender, "watching")
            return ThespianWatch([reader])

        def on_watch(actor, message):
            order.append("watch")
            return ThespianWatch([reader])

        def chain(left):
            def handle(actor, sender):
                order.append(left)
                if left:
                    actor.send(actor.myAddress, chain(left - 1))
                return ThespianWatch([reader])

            return handle

        await engine.aask(actor, begin, 5)
        engine.watches.fd_ready(actor._cell, reader)
        engine.post(actor, chain(5))
        await worked_off(engine)
        assert order == [5, 4, 3, 2, 1, 0, "watch"]
        engine.watches.fd_ready(actor._cell, reader)
        engine.post(actor, chain(10_000))
        await worked_off(engine)
        assert 0 < order.index("watch", 8) < len(order) - 1, (
            "an actor that writes to itself must not shut out descriptors"
        )
        os.close(reader)
        os.close(writer)

    run(scenario)


def test_a_watch_that_fires_again_queues_no_second_message(run):
    """Otherwise a mailbox would fill with as many messages as the loop has turns."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        pipes = [os.pipe(), os.pipe()]
        a, b = (reader for reader, _ in pipes)
        ready = []

        def on_watch(actor, message):
            ready.append(sorted(message.ready))
            return

        def begin(actor, sender):
            actor.on_watch = on_watch
            actor.send(sender, "watching")
            return ThespianWatch([a, b])

        assert await engine.aask(actor, begin, 5) == "watching"
        cell = actor._cell
        for fd in (a, b, a, b, a):
            engine.watches.fd_ready(cell, fd)
        assert len(cell.group.watches) == 1
        await worked_off(engine)
        assert ready == [sorted([a, b])]
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])

    run(scenario)


def test_no_message_comes_for_a_watch_that_was_dropped_meanwhile(run):
    """The number may be another file by then: reading it would steal somebody else's bytes."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        pipes = [os.pipe(), os.pipe()]
        a, b = (reader for reader, _ in pipes)
        ready = []

        def begin(actor, sender):
            actor.on_watch = lambda actor, message: ready.append(list(message.ready))
            actor.send(sender, "watching")
            return ThespianWatch([a, b])

        await engine.aask(actor, begin, 5)
        engine.post(actor, lambda actor, sender: ThespianWatch([b]))
        engine.watches.fd_ready(actor._cell, a)
        engine.watches.fd_ready(actor._cell, b)
        await worked_off(engine)
        assert ready == [[b]]

        await engine.aask(actor, begin, 5)
        engine.post(actor, lambda actor, sender: None)
        engine.watches.fd_ready(actor._cell, a)
        await worked_off(engine)
        assert ready == [[b]]
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])

    run(scenario)


def test_a_watch_message_of_an_actor_is_an_ordinary_message(run):
    """Only those of the engine are bound to a watch."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        ready = []
        engine.post(
            actor,
            lambda actor, sender: setattr(actor, "on_watch", lambda actor, message: ready.append(message.ready)),
        )
        engine.post(actor, WatchMessage([]))
        await engine.aask(actor, answer(lambda _: None), 5)
        assert ready == [[]]

    run(scenario)


def test_watches_are_dropped_before_the_exit_request_is_delivered(run):
    """So that the handler may close the descriptors, whose numbers are then free for others."""

    async def scenario(engine):
        readers = Readers(engine)
        actor = engine.newPrimaryActor(Script, None, None)
        reader, writer = os.pipe()
        closed = []

        def on_exit(actor):
            os.close(reader)
            closed.append(list(readers.removed))
            return ThespianWatch([reader])  # has no effect: the actor is on its way out

        def begin(actor, sender):
            actor.on_exit = on_exit
            actor.send(sender, "watching")
            return ThespianWatch([reader])

        await engine.aask(actor, begin, 5)
        engine.post(actor, ActorExitRequest())
        assert await engine.aask(actor, answer(lambda _: None), 5) is None
        assert closed == [[reader]]
        assert readers.added == [reader]
        os.close(writer)

    run(scenario)


def test_a_descriptor_closed_in_the_handler_that_drops_it_can_be_used_again(run):
    """The next child may get the same number and must not lose its output."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        for _ in range(3):
            reader, writer = os.pipe()
            chunks, done = [], asyncio.get_running_loop().create_future()

            def on_watch(actor, message, reader=reader, done=done, chunks=chunks):
                chunks.append(os.read(reader, 100))
                os.close(reader)
                done.set_result(None)
                return

            def begin(actor, sender, reader=reader, on_watch=on_watch):
                actor.on_watch = on_watch
                return ThespianWatch([reader])

            engine.post(actor, begin)
            os.write(writer, b"hello")
            await asyncio.wait_for(done, 5)
            assert chunks == [b"hello"]
            os.close(writer)

    run(scenario)


def test_a_descriptor_that_cannot_be_watched_is_logged_and_harms_nothing(run, caplog, tmp_path):
    """An actor that returns a closed descriptor or a plain file must not stop the engine."""

    async def scenario(engine):
        actor = engine.newPrimaryActor(Script, None, None)
        dead, other = os.pipe()
        os.close(dead)
        os.close(other)
        engine.post(actor, lambda actor, sender: ThespianWatch([dead]))
        engine.post(actor, lambda actor, sender: ThespianWatch(["no descriptor"]))
        assert await engine.aask(actor, answer(lambda _: "alive"), 5) == "alive"

    run(scenario)
    assert "cannot watch descriptor" in caplog.text


def test_the_last_actor_to_watch_a_descriptor_has_it(run):
    """A descriptor handed from one actor to another is watched for its new owner, whatever the old one does."""

    async def scenario(engine):
        old = engine.newPrimaryActor(Script, None, None)
        new = engine.newPrimaryActor(Script, None, None)
        reader, writer = os.pipe()
        chunks, done = [], asyncio.get_running_loop().create_future()
        handed_over = asyncio.get_running_loop().create_future()

        def take_over(actor, sender):
            handed_over.set_result(None)
            return watcher(reader, chunks, done)(actor, sender)

        engine.post(old, watcher(reader, [], None))
        engine.post(new, take_over)
        engine.post(old, ActorExitRequest())
        await handed_over  # until then it is the old one that may read
        os.write(writer, b"abc")
        os.close(writer)
        await asyncio.wait_for(done, 5)
        assert chunks == [b"abc", b""]
        os.close(reader)

    run(scenario)


def test_a_failed_handler_loses_its_watch_and_a_retry_that_works_keeps_it(run):
    """Thespian's rule; our own actors let no exception out."""

    async def scenario(engine):
        readers = Readers(engine)
        actor = engine.newPrimaryActor(Script, None, None)
        reader, writer = os.pipe()
        attempts = []

        def works_the_second_time(actor, sender):
            attempts.append(1)
            if len(attempts) == 1:
                raise ValueError("first")
            return ThespianWatch([reader])

        def never_works(actor, sender):
            raise ValueError("always")

        def check(actor, sender):
            actor.send(sender, (list(readers.added), list(readers.removed)))
            return ThespianWatch([reader])

        engine.post(actor, watcher(reader, []))
        engine.post(actor, works_the_second_time)
        assert await engine.aask(actor, check, 5) == ([reader], [])
        engine.post(actor, never_works)
        assert await engine.aask(actor, answer(lambda _: list(readers.removed)), 5) == [reader]
        os.close(reader)
        os.close(writer)

    run(scenario)
