"""Actor classes: how to make an instance, and which function handles which message.

Thespian finds both out by introspection, 30 us a creation and 0.6 us a message; here it is done once a class.
A class must therefore not gain or lose handlers after its first message.

This is the one way from the class of a message to its handler. An actor class has three ways to be found in it:

* It derives from ActorTypeDispatcher: `receiveMsg_<class>`, SUPER and all, as Thespian would find them.
* It has a `receiveMessage` of its own, which gets every message.
* It has a class method `handler_for(message_class)`, asked once for each class of message, whose answer is called as
  `handler(actor, message, sender)`; its `receiveMessage` is then for other system bases only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from thespian.actors import Actor, ActorTypeDispatcher

Handler = Callable[[Any, Any, Any], Any]
"""`handler(actor, message, sender)`; a ThespianWatch that it returns is the actor's watch from then on."""

SUPER: int = ActorTypeDispatcher.SUPER
_INIT_ARGUMENTS = ("capabilities", "requirements")


class ActorClass:
    """The cached knowledge of one actor class.

    `handlers` has the handler of each message class met so far, but for the messages in which the engine has a
    part; those are in `system_handlers`. `handler_failed` is the method of that name, called in place of Thespian's
    second try as `handler_failed(actor, message, sender, error)`; its result is that of the handler.
    `begins_group`, an attribute of the actor class, says that each of its actors begins a group (see `cell.Group`).
    `messages` and `seconds` are how many messages its actors have handled, and how long that took.
    """

    __slots__ = (
        "actor_class",
        "begins_group",
        "handler_failed",
        "handlers",
        "init_arguments",
        "messages",
        "name",
        "requires",
        "seconds",
        "system_handlers",
    )

    def __init__(self, actor_class: type) -> None:
        self.actor_class = actor_class
        self.name = f"{actor_class.__module__}.{actor_class.__qualname__}"
        self.messages = 0
        self.seconds = 0.0
        self.handlers: dict[type, Handler] = {}
        self.system_handlers: dict[type, Handler] = {}
        self.handler_failed: Callable[[Any, Any, Any, Exception], Any] | None
        self.handler_failed = getattr(actor_class, "handler_failed", None)
        self.begins_group = bool(getattr(actor_class, "begins_group", False))
        self.init_arguments = _init_arguments(actor_class)
        self.requires = hasattr(actor_class, "actorSystemCapabilityCheck")

    def new(self, capabilities: dict[str, Any], requirements: dict[str, Any] | None) -> Actor:
        """An instance; its constructor gets `capabilities` and `requirements` if it names them."""
        if not self.init_arguments:
            return self.actor_class()
        values = {"capabilities": capabilities, "requirements": requirements}
        return self.actor_class(**{name: values[name] for name in self.init_arguments})

    def runs_with(self, capabilities: dict[str, Any], requirements: dict[str, Any] | None) -> bool:
        """Whether the class accepts this system. A check that raises has refused, as in Thespian."""
        if not self.requires:
            return True
        try:
            return bool(self.actor_class.actorSystemCapabilityCheck(capabilities, requirements or {}))  # type: ignore[attr-defined]
        except Exception:
            return False

    def handler(self, message_class: type) -> Handler:
        """The handler of a message class, remembered in `handlers`."""
        return self._remembered(self.handlers, message_class)

    def system_handler(self, message_class: type) -> Handler:
        """The handler of a message in which the engine has a part, remembered in `system_handlers`."""
        return self._remembered(self.system_handlers, message_class)

    def _remembered(self, table: dict[type, Handler], message_class: type) -> Handler:
        found = table.get(message_class)
        if found is None:
            found = table[message_class] = find_handler(self.actor_class, message_class)
        return found


def find_handler(actor_class: type, message_class: type) -> Handler:
    """The function by which actors of this class handle messages of that, found anew (see the module)."""
    own_way: Callable[[type], Handler] | None = getattr(actor_class, "handler_for", None)
    if own_way is not None:
        try:
            return own_way(message_class)
        except Exception:  # each such message fails by itself, in its handler
            return lambda actor, message, sender: own_way(message_class)(actor, message, sender)
    if getattr(actor_class, "receiveMessage", None) is not ActorTypeDispatcher.receiveMessage:
        return _receive
    found = typed_handlers(actor_class, message_class)
    return found[0] if len(found) == 1 else _in_turn(found)


def typed_handlers(actor_class: type, message_class: type) -> list[Handler]:
    """In ActorTypeDispatcher's order: the `receiveMsg_<class>`, then `receiveUnrecognizedMessage`."""
    found: list[Handler] = []
    for each in inspect.getmro(message_class):
        name = "receiveMsg_" + each.__name__
        found += [getattr(c, name) for c in inspect.getmro(actor_class) if hasattr(c, name)]
    unrecognized = getattr(actor_class, "receiveUnrecognizedMessage", None)
    if unrecognized is not None:
        found.append(unrecognized)
    return found


def _in_turn(handlers: list[Handler]) -> Handler:
    """A handler that calls these until one does not say SUPER."""

    def handle(actor: Any, message: Any, sender: Any) -> Any:
        result = None
        for handler in handlers:
            result = handler(actor, message, sender)
            if result is None or result != SUPER:
                break
        return result

    return handle


def _receive(actor: Any, message: Any, sender: Any) -> Any:
    """The instance may have a `receiveMessage` of its own too, as with Thespian's `initializing_messages`."""
    return actor.receiveMessage(message, sender)


def _init_arguments(actor_class: type) -> tuple[str, ...]:
    try:
        accepted = inspect.getfullargspec(actor_class.__init__).args  # type: ignore[misc]
    except TypeError:  # a constructor written in C
        return ()
    return tuple(name for name in _INIT_ARGUMENTS if name in accepted)
