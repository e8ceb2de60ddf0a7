"""Cells, all that the engine keeps of an actor; the addresses they are known by, and the groups they belong to."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, Final, Protocol

from thespian.actors import ActorAddress, WatchMessage

from actors.engine.dispatch import ActorClass, Handler

NO_HANDLERS: Final[dict[type, Handler]] = {}
SERIAL: Final = itertools.count(1)
"""Where the numbers in addresses come from: unique in this process."""


class Address(ActorAddress):
    """Address of an actor of an engine. One object an actor; `_cell` is None once the actor is gone.

    The number in it is unique in this process and means nothing outside it.
    """

    __slots__ = ("_aaddr", "_cell")
    _aaddr: int | str
    _cell: Cell | None

    def __init__(self, details: int | str, cell: Cell | None) -> None:
        self._aaddr = details
        self._cell = cell

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ActorAddress) and self._aaddr == other.addressDetails)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as every ActorAddress

    def __copy__(self) -> Address:
        return self

    def __deepcopy__(self, memo: object) -> Address:
        return self

    def __reduce__(self) -> tuple[type, tuple[int | str]]:
        return ActorAddress, (self._aaddr,)


def dead_address() -> Address:
    """The address of an actor that could not be made."""
    return Address(next(SERIAL), None)


class Sink(Protocol):
    """The receiving end of an address that is no actor."""

    def receive(self, message: Any, sender: ActorAddress) -> None:
        """Take a message; runs in a turn, must not block."""

    def undeliverable(self, message: Any) -> None:
        """`message`, sent from this address, reached nobody."""


class Watch:
    """The descriptors an actor watches, and the message that tells it about them until that is delivered."""

    __slots__ = ("fds", "pending")

    def __init__(self) -> None:
        self.fds: list[int] = []
        self.pending: WatchMessage | None = None


class Group:
    """Actors that share one place in the queue for turns, as those of a session: many get no more than one.

    An actor made from outside begins a group, one whose class says `begins_group = True` too; any other is in the
    group of its parent. In `mail` are the actors with mail and in `watches` those whose descriptors are ready, with
    the message about them; `debt` is by how many seconds the group has overrun its last visits.
    """

    __slots__ = ("debt", "mail", "watches")

    def __init__(self) -> None:
        self.mail: deque[Cell] = deque()
        self.watches: deque[tuple[Cell, WatchMessage]] = deque()
        self.debt = 0.0


class Cell:
    """The engine's side of one actor or sink, plain data."""

    __slots__ = (
        "address",
        "children",
        "exiting",
        "globalName",
        "group",
        "handlers",
        "home",
        "inbox",
        "info",
        "instance",
        "parent",
        "requirements",
        "sink",
        "source_hash",
        "timers",
        "watch",
    )

    def __init__(self, home: object, group: Group, parent: Cell | None, details: int | str | None = None) -> None:
        """`home` is the Mail that it belongs to: an address of another system is nobody's here."""
        self.home = home
        self.group = group
        self.parent = parent
        self.address = Address(next(SERIAL) if details is None else details, self)
        self.instance: Any = None
        self.info: ActorClass | None = None
        self.handlers = NO_HANDLERS
        self.inbox: deque[tuple[Any, ActorAddress]] | None = None
        self.children: dict[int | str, Cell] | None = None
        self.watch: Watch | None = None
        self.timers = 0
        self.exiting = False
        self.globalName: str | None = None
        self.source_hash: str | None = None
        self.requirements: dict[str, Any] | None = None
        self.sink: Sink | None = None

    @property
    def class_name(self) -> str:
        return self.info.name if self.info else str(self.address._aaddr)
