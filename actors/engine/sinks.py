"""The addresses of an engine that are no actors: the system itself, and nobody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from thespian.actors import ActorAddress, PoisonMessage, Thespian_StatusReq, ValidatedSource

if TYPE_CHECKING:
    from actors.engine.core import Runtime

log = logging.getLogger("exec_server.engine")


class SystemSink:
    """The address of the system itself: answers status requests, takes validated sources."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def receive(self, message: Any, sender: ActorAddress) -> None:
        runtime = self.runtime
        if isinstance(message, Thespian_StatusReq):
            from actors.engine.status import system_status

            runtime.send(sender, system_status(runtime), runtime.system_cell.address)
        elif isinstance(message, ValidatedSource):
            runtime.sources.validated(message.sourceHash, message.sourceZip)
        elif isinstance(message, PoisonMessage):
            log.warning("a message of the system made an actor fail: %s", message)

    def undeliverable(self, message: Any) -> None:
        pass  # the dead letter is counted where it is made


class NobodySink:
    """Where answers to `post` go: outside code that wants an answer uses `aask`. Failures are logged."""

    def receive(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, PoisonMessage):
            log.warning("a posted message made %s fail twice: %s", sender, message)

    def undeliverable(self, message: Any) -> None:
        pass  # the dead letter is counted where it is made
