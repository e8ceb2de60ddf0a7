"""The base of our actors: no exception of a handler reaches Thespian.

Thespian would run the message a second time, then drop the actor's watch (reference: thespian.actors, PoisonMessage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from thespian.actors import ActorTypeDispatcher, ThespianWatch

from actors.base.messages import Address

log = logging.getLogger("exec_server.actors")

Handler = Callable[[Any, Any, Address], Any]


class GuardedActor(ActorTypeDispatcher):
    """An ActorTypeDispatcher whose handlers may fail: the failure is logged and `on_fault` repairs what it can.

    Handlers are named `receiveMsg_<class of the message>`, as in ActorTypeDispatcher, and looked up once a class.
    Every handler's answer to Thespian is `watch()`, since any other return value clears the watch.
    """

    _handlers: ClassVar[dict[type, Handler]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers = {}

    def receiveMessage(self, message: Any, sender: Address) -> ThespianWatch | None:
        kind = type(message)
        handler = self._handlers.get(kind) or self._find_handler(kind)
        try:
            handler(self, message, sender)
        except Exception as error:
            log.exception("%s failed at %s", type(self).__name__, kind.__name__, extra=self.about())
            try:
                self.on_fault(message, sender, error)
            except Exception:
                log.exception("%s could not clean up after %s", type(self).__name__, kind.__name__, extra=self.about())
        return self.watch()

    def watch(self) -> ThespianWatch | None:
        """What Thespian is to watch for this actor from now on."""
        return None

    def about(self) -> dict[str, Any]:
        """`extra` of a log call: what this actor is about (actors.base.log_context)."""
        return {}

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """Make good after a handler failed at `message`: answer whoever waits, end what cannot go on."""

    @classmethod
    def _find_handler(cls, kind: type) -> Handler:
        for base in kind.__mro__:
            handler = getattr(cls, f"receiveMsg_{base.__name__}", None)
            if handler is not None:
                break
        else:
            handler = _ignore
        cls._handlers[kind] = handler
        return handler


def _ignore(actor: Any, message: Any, sender: Address) -> None:
    log.debug("%s has no use for %s", type(actor).__name__, type(message).__name__)
