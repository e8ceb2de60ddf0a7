"""Sinks, the addresses of an engine that are no actors: the system itself, and nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress, PoisonMessage, Thespian_StatusReq, ValidatedSource

log = logging.getLogger("exec_server.engine")


class SystemSink:
    """The address of the system itself: answers status requests, takes validated sources."""

    def __init__(self, send_status: Callable[[ActorAddress], object], validated: Callable[[str, Any], object]) -> None:
        self._send_status = send_status
        self._validated = validated

    def receive(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, Thespian_StatusReq):
            self._send_status(sender)
        elif isinstance(message, ValidatedSource):
            self._validated(message.sourceHash, message.sourceZip)
        elif isinstance(message, PoisonMessage):
            log.warning("a message of the system made an actor fail: %s", message)

    def undeliverable(self, message: Any) -> None:
        pass  # the dead letter is counted where it is made


class NobodySink:
    """The sender of what is posted: outside code that wants an answer uses `aask`. Failures are logged."""

    def receive(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, PoisonMessage):
            log.warning("a posted message made %s fail twice: %s", sender, message)

    def undeliverable(self, message: Any) -> None:
        pass  # the dead letter is counted where it is made
