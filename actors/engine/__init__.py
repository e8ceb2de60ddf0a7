"""The engine: a Thespian system base that runs all actors of a server on one asyncio loop.

    install()
    system = ActorSystem("asyncioBase", capabilities, logDefs, transientUnique=True)
    engine = engine_of(system)
    await engine.aask(system.createActor(Greeter), "hello", timeout=5)

It is for any actors that Thespian could run, and knows none of ours.

Rooms, each of which imports only those above it:

    dispatch      the class of a message -> its handler, once for each class of actor
    cell          cells, plain data of one actor; addresses; groups
    mail          mailboxes, dead letters, the queue of those with mail
    timers        wakeups, by when they are due
    watches       descriptors, by the actor that waits for them
    failures      what comes of a handler that raised
    life          parents and children, from the constructor to the burial
    turns         whose mail is handled next, and for how long: the fairness of it all
    runtime       these together, with hooks for what drives them; no I/O
    asyncio_base  a driver: an asyncio loop
    blocking      Thespian's ask, listen and tell, for threads and programs without a loop

`sinks` has the addresses that are no actors; `status` and `sources` (code loaded as zip files) are imported once
somebody asks for them.

Life of an actor. `createActor` makes the instance at once, so the address that it returns is good, and finds the
handlers of its class. `send` puts a message in a mailbox: its actor, if it had none, waits for its turn in the queue of
its group, and a turn of the engine is scheduled on the loop. In a turn, actors with mail are visited, group by group,
for up to 2.5 ms in all; then the callbacks of `call_after_turn` run and the loop looks at sockets and timers again.
What a handler returns is what the actor watches from then on; one that raises runs a second time and then its sender
gets PoisonMessage, unless its class says otherwise. ActorExitRequest ends an actor after its children, and its parent
gets ChildActorExited.

Threads. Everything belongs to one thread, that of the loop, except `Actor.send`, `Actor.wakeupAfter` and
`post_threadsafe`, which any thread may call, and the calls of `blocking`.
"""

import sys
from types import ModuleType

from actors.engine.asyncio_base import ActorSystemBase, engine_of
from actors.engine.blocking import BlockingSystemBase

__all__ = ["ActorSystemBase", "engine_of", "install"]


def install() -> None:
    """Make `ActorSystem('asyncioBase', ...)` find this engine."""
    import thespian.system

    module = ModuleType("thespian.system.asyncioBase")
    module.ActorSystemBase = BlockingSystemBase  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    thespian.system.asyncioBase = module
