"""Life of actors: how they are made, whose children they are, and how they end.

An actor ends by ActorExitRequest, by sys.exit() in a handler, or with the system. Its descriptors are dropped first,
then its handler of the request runs, then its children end (unless the request says `recursive=False`), then it is
buried: it is out of everything, what waits in its mailbox is dead letters, and its parent gets ChildActorExited.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ActorSystemFailure,
    ChildActorExited,
    InvalidActorSpecification,
    NoCompatibleSystemForActor,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)
from thespian.system.utilis import actualActorClass

from actors.engine.cell import NO_HANDLERS, Cell, Group, dead_address
from actors.engine.dispatch import ActorClass
from actors.engine.failures import failed
from actors.engine.mail import Mail
from actors.engine.timers import Timers
from actors.engine.watches import Watches

if TYPE_CHECKING:
    from actors.engine.sources import Sources

log = logging.getLogger("exec_server.engine")


class Life:
    """All actors of one system, from their constructor to their burial.

    `system` is the cell of the system itself, the parent of actors made from outside. `new_cell(group, parent)` makes
    the cell of an actor. `all_gone` is called when the last actor is gone and the system is shutting down.
    """

    def __init__(
        self,
        capabilities: dict[str, Any],
        mail: Mail,
        timers: Timers,
        watches: Watches,
        system: Cell,
        new_cell: Callable[[Group, Cell], Cell],
        all_gone: Callable[[], None],
    ) -> None:
        self.capabilities = capabilities
        self.mail = mail
        self.timers = timers
        self.watches = watches
        self.system = system
        self.names: dict[str, Cell] = {}
        self.classes: dict[type, ActorClass] = {}
        self.live_actors = 0
        self.shutting_down = False
        self._new_cell = new_cell
        self._all_gone = all_gone
        self._sources: Sources | None = None

    @property
    def sources(self) -> Sources:
        """The loaded sources; imported when first used, since it costs 9 ms and most systems load none."""
        if self._sources is None:
            from actors.engine.sources import Sources

            self._sources = Sources(self.tell, self.classes.clear)
        return self._sources

    def tell(self, address: ActorAddress, message: Any) -> None:
        """Send in the name of the system."""
        self.mail.send(self.system.address, address, message)

    def living(self) -> dict[str, int]:
        """How many actors there are, by class."""
        return dict(Counter(cell.info.name for cell in self.mail.cells.values() if cell.info is not None))

    def handled(self) -> dict[str, tuple[int, float]]:
        """By actor class: how many messages were handled, and the seconds that it took."""
        return {info.name: (info.messages, info.seconds) for info in self.classes.values()}

    # Creating.

    def create_primary(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None = None,
        global_name: str | None = None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        """A new actor whose parent is the system, or the one that has `global_name` already.

        Raises InvalidActorSpecification, ImportError, NoCompatibleSystemForActor, InvalidActorSourceHash, and
        ActorSystemFailure once the system is shutting down. If the constructor raises, the address is that of
        a dead actor.
        """
        if global_name and global_name in self.names:
            return self.names[global_name].address
        if self.shutting_down:
            raise ActorSystemFailure("the actor system is shut down")
        info = self._actor_class(actor_class, source_hash)
        try:
            return self._new_actor(self.system, info, requirements, global_name, source_hash).address
        except NoCompatibleSystemForActor:
            raise
        except (Exception, SystemExit):
            log.error("the constructor of %s failed", info.name, exc_info=True)
            return dead_address()

    def create_child(
        self,
        parent: Cell,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> ActorAddress:
        """A new child of `parent`. Never raises: a child that cannot be made is told by ChildActorExited.

        An actor with a global name is a child of the system, as in Thespian. While the parent is exiting or
        the system shuts down nothing is made and the address is a dead one.
        """
        if global_name and global_name in self.names:
            return self.names[global_name].address
        if parent.exiting or parent.instance is None or self.shutting_down:
            return dead_address()
        source_hash = source_hash or parent.source_hash
        try:
            info = self._actor_class(actor_class, source_hash)
            owner = self.system if global_name else parent
            return self._new_actor(owner, info, requirements, global_name, source_hash).address
        except (Exception, SystemExit) as error:
            if isinstance(error, NoCompatibleSystemForActor):
                log.info("%s", error)
            else:
                log.error("%s could not create %s", parent.class_name, actor_class, exc_info=True)
            address = dead_address()
            self.tell(parent.address, ChildActorExited(address))
            return address

    def _actor_class(self, actor_class: type | str, source_hash: str | None) -> ActorClass:
        if isinstance(actor_class, str):
            loader = self.sources.loader(source_hash) if source_hash else None
            try:
                actor_class = actualActorClass(actor_class, loader)
            except AttributeError as error:
                raise InvalidActorSpecification(actor_class, str(error)) from error
        info = self.classes.get(actor_class)  # type: ignore[arg-type]
        if info is None:
            if not isinstance(actor_class, type):
                raise InvalidActorSpecification(actor_class)
            info = self.classes[actor_class] = ActorClass(actor_class)
        return info

    def _new_actor(
        self,
        parent: Cell,
        info: ActorClass,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None,
    ) -> Cell:
        if info.requires and not info.runs_with(self.capabilities, requirements):
            raise NoCompatibleSystemForActor(info.actor_class, "No compatible ActorSystem could be found")
        instance = info.new(self.capabilities, requirements)
        group = Group() if info.begins_group or parent is self.system else parent.group
        cell = self._new_cell(group, parent)
        cell.instance = instance
        cell.info = info
        cell.handlers = info.handlers
        cell.requirements = requirements
        cell.globalName = global_name
        instance._myRef = cell
        serial = cell.address._aaddr
        self.mail.cells[serial] = cell
        if parent.children is None:
            parent.children = {}
        parent.children[serial] = cell
        if global_name:
            self.names[global_name] = cell
        if source_hash:
            cell.source_hash = source_hash
            self.sources.used(source_hash)
        self.live_actors += 1
        return cell

    # Ending.

    def exit_requested(self, cell: Cell, message: ActorExitRequest, sender: ActorAddress) -> None:
        """End an actor that was asked to, whatever its handler of the request does."""
        self.watches.set(cell, ())  # before the handler, which may close what was watched
        self._handle(cell, message, sender, retry=False)
        if cell.instance is not None:
            self._exit(cell, message.isRecursive)

    def exit_of_itself(self, cell: Cell) -> None:
        """End an actor that called sys.exit(): on other bases it ends the actor's process."""
        log.warning("%s at %s ended itself by SystemExit", cell.class_name, cell.address)
        self.watches.set(cell, ())
        self._exit(cell, recursive=True)

    def child_exited(self, cell: Cell, message: ChildActorExited, sender: ActorAddress) -> None:
        """Take a child off an actor's books, once its handler has heard of it; end an actor that waited for that."""
        result = self._handle(cell, message, sender, retry=True)
        if cell.instance is None:
            return
        children = cell.children
        if children is not None:
            children.pop(message.childAddress.addressDetails, None)
            if not children:
                cell.children = children = None
        if not cell.exiting:
            self.watches.set(cell, result.filenos if isinstance(result, ThespianWatch) else ())
        elif children is None:
            self._bury(cell)

    def _handle(self, cell: Cell, message: Any, sender: ActorAddress, retry: bool) -> Any:
        """Run the actor's handler of a message in which the engine has a part; its result."""
        info = cell.info
        if info is None:
            return None
        handler = info.system_handler(message.__class__)
        try:
            try:
                return handler(cell.instance, message, sender)
            except Exception as error:
                if retry or info.handler_failed is not None:
                    return failed(self.mail, cell, handler, message, sender, error)
                log.warning("%s failed on %s", cell.class_name, message.__class__.__name__, exc_info=True)
        except SystemExit:
            self.exit_of_itself(cell)
        return None

    def _exit(self, cell: Cell, recursive: bool) -> None:
        if cell.exiting:
            return
        cell.exiting = True
        cell.handlers = NO_HANDLERS
        if recursive and cell.children:
            for child in list(cell.children.values()):
                if child.instance is not None:
                    self.mail.send(cell.address, child.address, ActorExitRequest(recursive=True))
            return  # goes on when the last child has exited
        self._bury(cell)

    def _bury(self, cell: Cell) -> None:
        """Take an actor out of everything."""
        serial = cell.address._aaddr
        self.watches.set(cell, ())
        self.mail.cells.pop(serial, None)
        cell.address._cell = None
        cell.instance = None
        cell.handlers = NO_HANDLERS
        self.timers.drop(cell)
        if cell.globalName:
            self.names.pop(cell.globalName, None)
        if self.mail.dead_letter_handler is cell:
            self.mail.dead_letter_handler = None
        self._orphan_children(cell)
        self._return_letters(cell)
        parent, cell.parent = cell.parent, None
        if parent is self.system:
            if parent.children:
                parent.children.pop(serial, None)
        elif parent is not None and parent.instance is not None:
            self.tell(parent.address, ChildActorExited(cell.address))
        if self._sources is not None:
            self._sources.forget(cell.address, cell.source_hash)
        self.live_actors -= 1
        if self.shutting_down and not self.live_actors:
            self._all_gone()

    def _orphan_children(self, cell: Cell) -> None:
        """Give the children that an actor leaves to the system."""
        system = self.system
        for child in (cell.children or {}).values():
            if child.instance is not None:
                child.parent = system
                system.children = system.children or {}
                system.children[child.address._aaddr] = child
                if self.shutting_down:
                    self.tell(child.address, ActorExitRequest(recursive=True))
        cell.children = None

    def _return_letters(self, cell: Cell) -> None:
        inbox, cell.inbox = cell.inbox, None
        if not inbox:
            return
        letters = list(inbox)
        inbox.clear()
        for message, sender in letters:
            if not isinstance(message, (WatchMessage, WakeupMessage)):
                self.mail.dead_letter(sender, cell.address, message)

    def begin_shutdown(self) -> None:
        """Ask every actor to exit, parents first. `all_gone` is called when the last has done so."""
        if self.shutting_down:
            return
        self.shutting_down = True
        for child in list((self.system.children or {}).values()):
            self.tell(child.address, ActorExitRequest(recursive=True))
        if not self.live_actors:
            self._all_gone()

    def bury_all(self) -> None:
        """End whatever still lives without asking, and unload every source."""
        left = [cell for cell in self.mail.cells.values() if cell.instance is not None]
        if left:
            log.warning("%d actors had not exited at the end of the shutdown", len(left))
        for cell in left:
            cell.children = None
            self._bury(cell)
        if self._sources is not None:
            self._sources.unload_all()

    def update_capability(self, name: str, value: Any) -> None:
        """Set a capability, or remove it (None). Actors that cannot run without it are told to exit."""
        if value is None:
            self.capabilities.pop(name, None)
        else:
            self.capabilities[name] = value
        for cell in list(self.mail.cells.values()):
            info = cell.info
            if info is not None and info.requires and not info.runs_with(self.capabilities, cell.requirements):
                self.tell(cell.address, ActorExitRequest())
