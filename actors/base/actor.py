"""The base of our actors: how they open, what they wait for, and what becomes of their faults."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from thespian.actors import (
    ActorExitRequest,
    ActorTypeDispatcher,
    ChildActorExited,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from actors.base.deadlines import Deadlines
from actors.base.messages import Address

log = logging.getLogger("exec_server.actors")

Handler = Callable[[Any, Any, Address], object]

SYSTEM_MESSAGES = (ActorExitRequest, ChildActorExited, WakeupMessage, WatchMessage)
"""What Thespian itself sends; no message of ours, so in no union of them."""


class Part:
    """One subject of an actor, with handlers of its own, named as those of the actor.

    It lives and ends with its actor, and sends in its name.
    """

    def __init__(self, actor: BaseActor) -> None:
        self.actor = actor
        self.send: Callable[[Address, Any], None] = actor.send


class BaseActor(ActorTypeDispatcher):
    """An actor that opens with one message, handles each kind by one method, and survives the faults of these.

    In the order of its life:

    1. `__init__`, without arguments.
    2. The message of class `opens_with` comes; by the end of its handler all `parts` are made. What comes before it
       waits in the stash, and is handled after it, in its order: only the messages of one sender keep theirs.
    3. `receiveMsg_<class of the message>(message, sender)`, of the actor or of one of its parts, for every message.
       `stash` in one of them keeps the message until `unstash`. A class that nobody handles is an error, and logged.
    4. `watch()`, after each of them: the descriptors that Thespian is to watch. Thespian takes the return value of
       every handler for that, so handlers return nothing.
    5. `deadlines` fall due: their callbacks are called.
    6. `on_fault`, after a handler or a callback raised. Thespian would run the message a second time, then drop the
       watch (thespian.actors, PoisonMessage), so no exception reaches it.
    7. `receiveMsg_ActorExitRequest`, if it has been opened: the last message of all.
    """

    opens_with: ClassVar[type | None] = None
    """The class of the first message; None: any."""
    parts: ClassVar[dict[str, type[Part]]] = {}
    """Attribute -> class, of what has handlers beside those of the actor itself. The actor makes them."""

    _handlers: ClassVar[dict[type, Handler]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines(self.wakeupAfter)
        self._opened = self.opens_with is None
        self._stash: list[tuple[Any, Address]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers = {}

    # -- hooks --------------------------------------------------------------------------------------------------

    def watch(self) -> ThespianWatch | None:
        """What Thespian is to watch for this actor from now on."""
        return None

    def about(self) -> dict[str, Any]:
        """`extra` of a log call: what this actor is about (actors.base.log_context). Only asked once it has opened."""
        return {}

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """Make good after a handler failed at `message`: answer whoever waits, end what cannot go on."""

    # -- for handlers -------------------------------------------------------------------------------------------

    def stash(self, message: Any, sender: Address) -> None:
        """Keep a message that cannot be handled yet, until `unstash`."""
        self._stash.append((message, sender))

    def unstash(self) -> None:
        """Handle what waits, in its order. A message that is stashed again meanwhile waits for the next time."""
        waiting, self._stash = self._stash, []
        for message, sender in waiting:
            self._handle(message, sender)

    # -- messages -----------------------------------------------------------------------------------------------

    def receiveMessage(self, message: Any, sender: Address) -> ThespianWatch | None:
        """As on any other system base than ours, which asks `handler_for` instead."""
        if self._opened:
            self._handle(message, sender)
        else:
            self._handle_unopened(message, sender)
        return self.watch()

    @classmethod
    def handler_for(cls, kind: type) -> Handler:
        """For the engine (actors.engine.dispatch): what is called for a message of this class, on its hot path."""
        handler = cls._find_handler(kind)

        def handle(actor: BaseActor, message: Any, sender: Address) -> None:
            if actor._opened:
                handler(actor, message, sender)
            else:
                actor._handle_unopened(message, sender)

        def handle_and_watch(actor: BaseActor, message: Any, sender: Address) -> ThespianWatch | None:
            handle(actor, message, sender)
            return actor.watch()

        if cls.watch is not BaseActor.watch:
            return handle_and_watch
        return handle if cls.opens_with is not None else handler

    def handler_failed(self, message: Any, sender: Address, error: Exception) -> ThespianWatch | None:
        """For the engine: what `handle` raised."""
        self._fault(message, sender, error)
        return self.watch()

    def _handle_unopened(self, message: Any, sender: Address) -> None:
        if type(message) is self.opens_with:
            self._opened = True
            self._handle(message, sender)
            self.unstash()
        elif type(message) is ActorExitRequest:
            self._stash.clear()
        else:
            self.stash(message, sender)

    def _handle(self, message: Any, sender: Address) -> None:
        kind = type(message)
        handler = self._handlers.get(kind) or self._find_handler(kind)
        try:
            handler(self, message, sender)
        except Exception as error:
            self._fault(message, sender, error)

    def _fault(self, message: Any, sender: Address, error: Exception) -> None:
        names = type(self).__name__, type(message).__name__
        log.error("%s failed at %s", *names, exc_info=error, extra=self.about())
        try:
            self.on_fault(message, sender, error)
        except Exception:
            log.exception("%s could not clean up after %s", *names, extra=self.about())

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: Address) -> None:
        for callback in self.deadlines.due(message.payload):
            try:
                callback()
            except Exception as error:
                self._fault(message, sender, error)

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        """The end. Whoever has something to close or to tell has a method of its own."""

    # -- the table of handlers ----------------------------------------------------------------------------------

    @classmethod
    def handled(cls) -> set[str]:
        """Names of all message classes that the actor or one of its parts has a handler for, Thespian's left out."""
        prefix = "receiveMsg_"
        names = {name for each in (cls, *cls.parts.values()) for name in dir(each) if name.startswith(prefix)}
        return {name.removeprefix(prefix) for name in names} - {each.__name__ for each in SYSTEM_MESSAGES}

    @classmethod
    def _find_handler(cls, kind: type) -> Handler:
        name = f"receiveMsg_{kind.__name__}"
        handler: Handler = getattr(cls, name, None) or _unhandled
        for attribute, part in cls.parts.items():
            if handler is _unhandled and hasattr(part, name):
                handler = _of_part(attribute, getattr(part, name))
        cls._handlers[kind] = handler
        return handler


def _of_part(attribute: str, handler: Handler) -> Handler:
    return lambda actor, message, sender: handler(getattr(actor, attribute), message, sender)


def _unhandled(actor: BaseActor, message: Any, sender: Address) -> None:
    log.error("%s has no handler for %s", type(actor).__name__, type(message).__name__, extra=actor.about())
