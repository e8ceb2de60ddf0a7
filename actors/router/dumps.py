"""Dumps: the part of the RouterActor that asks every session what it has, for a dump of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from actors.base.actor import BaseActor, Part
from actors.base.log_context import session_tag
from actors.base.messages import Address, Describe, Described, Dump, Dumped
from actors.router.directory import Directory

DUMP_S: Final = 2.0
"""How long sessions may take to tell what they have, in seconds; those that do not are dumped without."""


@dataclass(slots=True)
class Making:
    """A dump that is being made."""

    asker: Address
    awaited: set[str]
    """Sessions that have not answered."""
    found: dict[str, dict[str, Any]]


class Dumps(Part):
    """Makes one dump at a time; a second one ends the first with what is there."""

    def __init__(self, actor: BaseActor, directory: Directory) -> None:
        super().__init__(actor)
        self._directory = directory
        self._making: Making | None = None

    def receiveMsg_Dump(self, message: Dump, sender: Address) -> None:
        self._tell()
        self._making = Making(sender, {session.session_id for session in self._directory}, {})
        for session in self._directory:
            self._making.found[session.session_id] = {
                "session": session_tag(session.session_id),
                "attached": session.bridge is not None,
                "ttlSeconds": session.ttl,
                "congested": session.congested,
                "contenders": len(session.contenders),
                "processes": None,
            }
            self.send(session.connection, Describe(message.show_argv))
        self.actor.deadlines.set("dump", DUMP_S, self._tell)
        self._tell_if_complete()

    def receiveMsg_Described(self, message: Described, session: Address) -> None:
        if self._making is not None and message.session_id in self._making.awaited:
            self._making.found[message.session_id]["processes"] = message.processes
            self.leave_out(message.session_id)

    def leave_out(self, session_id: str) -> None:
        """Wait for this session no longer."""
        if self._making is not None:
            self._making.awaited.discard(session_id)
            self._tell_if_complete()

    def _tell_if_complete(self) -> None:
        if self._making is not None and not self._making.awaited:
            self._tell()

    def _tell(self) -> None:
        making, self._making = self._making, None
        if making is not None:
            self.actor.deadlines.cancel("dump")
            self.send(making.asker, Dumped(list(making.found.values())))
