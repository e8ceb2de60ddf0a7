"""Mail: addresses, mailboxes, and the queue of those that have something in theirs.

Every actor has one mailbox, and messages leave it in the order in which they came: FIFO between any pair of actors.
They are passed by reference, never copied: sender and receiver hold the same object, so a message must not be
changed after it is sent. Frozen structs keep that rule by themselves.

Mailboxes have no hard bound: to drop or refuse a message inside would break a promise to somebody. They are
bounded by what is let in at the edge. One descriptor watch holds at most one message, a timer one, and a transport
reads no further while its bridge has too much unanswered. `depth` and `deepest` show how it stands and a mailbox of
MAILBOX_ALARM messages is logged, for that means that somebody at the edge does not keep the rule.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

from thespian.actors import ActorAddress, ChildActorExited, DeadEnvelope

from actors.engine.cell import Address, Cell, Group, Sink

log = logging.getLogger("exec_server.engine")

MAILBOX_ALARM = 10_000
"""A mailbox this deep is logged, and again each time the deepest has doubled."""

POOLED_MAILBOXES: Final = 256
"""How many empty mailboxes are kept for the next actors that get mail."""


class Mail:
    """All mailboxes of one system.

    Everything belongs to one thread, `thread_id`, except `send`, which any thread may call. `schedule` is called when
    there is something to do for a turn and was nothing before; `send_from_thread(function, *arguments)` has a
    function called on the engine's thread.
    """

    def __init__(self, schedule: Callable[[], None], send_from_thread: Callable[..., None]) -> None:
        self.thread_id: int | None = get_ident()
        self.cells: dict[int | str, Cell] = {}
        self.ready: deque[Group] = deque()
        """The groups with an actor that has mail, in the order of their turns."""
        self.scheduled = False
        self.dead_letters = 0
        self.dead_letter_handler: Cell | None = None
        self.system_address: ActorAddress | None = None
        """The sender of dead letters, once there is one."""
        self.deepest = 0
        self.pool: list[deque[tuple[Any, ActorAddress]]] = []
        self._alarm = MAILBOX_ALARM
        self._outside = Group()
        self._schedule = schedule
        self._send_from_thread = send_from_thread

    def send(self, sender: ActorAddress, target: ActorAddress, message: Any) -> bool:
        """Put `message` in the mailbox of `target`; any thread. False: nobody is there, a dead letter."""
        if get_ident() != self.thread_id:
            self._send_from_thread(self.send, sender, target, message)
            return True
        cell = target._cell if target.__class__ is Address else self.resolve(target)
        if cell is None or cell.home is not self:
            self.dead_letter(sender, target, message)
            return False
        inbox = cell.inbox
        if inbox is None:
            pool = self.pool
            cell.inbox = inbox = pool.pop() if pool else deque()
            group = cell.group  # as in `queue`, on the way of every message
            if not group.mail:
                self.ready.append(group)
            group.mail.append(cell)
            if not self.scheduled:
                self.wake()
        inbox.append((message, sender))
        return True

    def queue(self, cell: Cell) -> None:
        """Have an actor that has mail wait for its turn, behind the others of its group."""
        group = cell.group
        if not group.mail:
            self.ready.append(group)
        group.mail.append(cell)
        self.wake()

    def wake(self) -> None:
        """See to it that a turn comes soon."""
        if not self.scheduled:
            self.scheduled = True
            self._schedule()

    def resolve(self, address: ActorAddress) -> Cell | None:
        """The cell of an address; None if nobody has it any more, or it is of another system base."""
        if address.__class__ is Address:
            return address._cell
        try:
            return self.cells.get(address.addressDetails)
        except TypeError:  # unhashable
            return None

    def new_sink(self, sink: Sink, details: int | str | None = None) -> Cell:
        """An address whose messages `sink` gets. Give it back with `drop_sink`."""
        cell = Cell(self, self._outside, None, details)
        cell.sink = sink
        self.cells[cell.address._aaddr] = cell
        return cell

    def drop_sink(self, cell: Cell) -> None:
        """Make whatever is sent to this sink's address from now on a dead letter."""
        self.cells.pop(cell.address._aaddr, None)
        cell.address._cell = None
        cell.sink = None
        cell.inbox = None

    def dead_letter(self, sender: ActorAddress, target: ActorAddress, message: Any) -> None:
        """Count a message that reached nobody, and tell a sender that is no actor and the handler of dead letters."""
        self.dead_letters += 1
        origin = self.resolve(sender)
        if origin is not None and origin.sink is not None:
            origin.sink.undeliverable(message)
        handler = self.dead_letter_handler
        if handler is not None and not isinstance(message, (DeadEnvelope, ChildActorExited)):
            assert self.system_address is not None
            self.send(self.system_address, handler.address, DeadEnvelope(target, message))

    def handle_dead_letters(self, address: ActorAddress, enable: bool) -> None:
        """Give dead letters to this actor from now on (the last to ask is the only one), or no more."""
        cell = self.resolve(address)
        if enable:
            self.dead_letter_handler = cell
        elif self.dead_letter_handler is cell:
            self.dead_letter_handler = None

    def depth(self, address: ActorAddress) -> int:
        """How many messages wait in the mailbox of `address`; 0 if it is gone."""
        cell = self.resolve(address)
        return len(cell.inbox) if cell is not None and cell.inbox is not None else 0

    def waiting(self) -> dict[str, int]:
        """How many messages wait in mailboxes, by actor class."""
        found: dict[str, int] = {}
        for group in self.ready:
            for cell in group.mail:
                if cell.inbox is not None and cell.info is not None:
                    found[cell.info.name] = found.get(cell.info.name, 0) + len(cell.inbox)
        return found

    def note_depth(self, cell: Cell, depth: int) -> None:
        """Remember a mailbox deeper than any before."""
        self.deepest = depth
        if depth >= self._alarm:
            self._alarm = depth * 2
            log.warning("%d messages wait for %s at %s", depth, cell.class_name, cell.address)
