"""Actors for the engine's tests: they do what the function they are sent says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from thespian.actors import Actor, ActorTypeDispatcher, ChildActorExited, WakeupMessage, WatchMessage

from actors.engine import ActorSystemBase


class Script(ActorTypeDispatcher):
    """Calls each function it is sent with itself and the sender; what that returns is the handler's result.

    Everything else it is sent is kept in `seen`.
    """

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.on_watch: Callable[[Script, WatchMessage], Any] | None = None
        self.on_wakeup: Callable[[Script, WakeupMessage], Any] | None = None
        self.on_child_exit: Callable[[Script, ChildActorExited], Any] | None = None
        self.on_exit: Callable[[Script], Any] | None = None

    def receiveMsg_function(self, function: Callable[..., Any], sender: Any) -> Any:
        return function(self, sender)

    def receiveMsg_WatchMessage(self, message: WatchMessage, sender: Any) -> Any:
        return self.on_watch(self, message) if self.on_watch else None

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Any) -> Any:
        return self.on_wakeup(self, message) if self.on_wakeup else self.seen.append(message)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: Any) -> Any:
        return self.on_child_exit(self, message) if self.on_child_exit else self.seen.append(message)

    def receiveMsg_ActorExitRequest(self, message: Any, sender: Any) -> Any:
        return self.on_exit(self) if self.on_exit else None

    def receiveUnrecognizedMessage(self, message: Any, sender: Any) -> None:
        self.seen.append(message)


class Fails(Actor):
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no such actor today")


def answer(value: Callable[[Script], Any]) -> Callable[[Script, Any], None]:
    """A function that makes a Script send `value(itself)` to whoever asked."""
    return lambda actor, sender: actor.send(sender, value(actor))


seen = answer(lambda actor: list(actor.seen))


async def settled(engine: ActorSystemBase) -> None:
    """Until no actor has mail."""
    done = engine.loop.create_future()

    def check() -> None:
        if engine.mail.ready:
            engine.call_after_turn(check)
        else:
            done.set_result(None)

    engine.call_after_turn(check)
    await asyncio.wait_for(done, 5)
