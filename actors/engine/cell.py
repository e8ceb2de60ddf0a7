"""What the engine keeps of one actor, and the address that others know it by."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from thespian.actors import ActorAddress, WatchMessage

from actors.engine.dispatch import ActorClass, Handlers

if TYPE_CHECKING:
    from actors.engine.core import Runtime

NO_HANDLERS: Final[dict[type, Handlers]] = {}
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


class Cell:
    """The engine's side of one actor or sink; an Actor knows it as `_myRef`, calls the camelCase methods."""

    __slots__ = (
        "address",
        "children",
        "exiting",
        "globalName",
        "handlers",
        "inbox",
        "info",
        "instance",
        "parent",
        "requirements",
        "runtime",
        "sink",
        "source_hash",
        "timers",
        "watch",
    )

    def __init__(self, runtime: Runtime, details: int | str, parent: Cell | None) -> None:
        self.runtime = runtime
        self.address = Address(details, self)
        self.parent = parent
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

    def actor_send(self, target: ActorAddress, message: Any) -> None:
        self.runtime.send(target, message, self.address)

    def createActor(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        return self.runtime.create_child(self, actor_class, requirements, global_name, source_hash)

    def wakeupAfter(self, period: Any, payload: Any = None) -> None:
        self.runtime.wake_after(self, period, payload)

    def handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.runtime.handle_dead_letters(address, enable)

    def updateCapability(self, name: str, value: Any) -> None:
        self.runtime.update_capability(name, value)

    def registerSourceAuthority(self, address: ActorAddress) -> None:
        self.runtime.sources.authority = address

    def notifyOnSourceAvailability(self, address: ActorAddress, enable: bool) -> None:
        self.runtime.sources.notify(address, enable)

    def loadActorSource(self, source: Any) -> str:
        digest: str = self.runtime.sources.load(source)
        return digest

    def unloadActorSource(self, source_hash: str) -> None:
        self.runtime.sources.unload(source_hash)

    def notifyOnSystemRegistrationChanges(self, address: ActorAddress, enable: bool) -> None:
        """One system alone has no convention whose changes could be told."""

    def preRegisterRemoteSystem(self, address: Any, capabilities: dict[str, Any]) -> None:
        """One system alone has no convention to register others with."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """One system alone has no convention to take others out of."""

    def actorSystemShutdown(self) -> None:
        self.runtime.begin_shutdown()
