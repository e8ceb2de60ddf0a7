"""The services of a session: the actors that carry out requests of a family other than processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from actors.base.messages import Address

SERVICES: dict[str, str] = {
    "filesystem": "actors.services.files.FilesActor",
    "http": "actors.services.http.HttpActor",
    "environment config": "actors.services.environment.EnvironmentActor",
    "capability discovery": "actors.services.environment.EnvironmentActor",
}
"""Family of methods (protocol.methods) -> class of the actor that carries out its requests."""


def preload() -> None:
    """Import what processes and services are made of. Takes tens of milliseconds, which the loop cannot spare: for a
    thread, before the first request needs it."""
    for name in dict.fromkeys(("actors.process.actor.ProcessActor", *SERVICES.values())):
        importlib.import_module(name.rpartition(".")[0])


class Services:
    """Which services a session has: each is made at its first request, and anew after it was lost."""

    def __init__(self, create: Callable[[str], Address]) -> None:
        self._create = create
        self._actors: dict[str, Address] = {}

    def find(self, family: str) -> Address | None:
        """The service of this family, if it has been made."""
        return self._actors.get(SERVICES[family])

    def make(self, family: str) -> Address:
        """Make the service of this family."""
        actor = self._actors[SERVICES[family]] = self._create(SERVICES[family])
        return actor

    def lose(self, actor: Address) -> list[str]:
        """Take an actor that has ended off the books; the families whose requests are void, none for a stranger."""
        for name, each in list(self._actors.items()):
            if each == actor:
                del self._actors[name]
                return [family for family, service in SERVICES.items() if service == name]
        return []

    def clear(self) -> None:
        """The session ends, and its services with it: that is no loss."""
        self._actors.clear()

    def all(self) -> Iterable[Address]:
        """The services that have been made."""
        return self._actors.values()
