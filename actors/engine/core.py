"""The engine without a loop: mailboxes, turns, timers, watches and the life of actors, with no I/O and no
asyncio.

`Runtime` does everything Thespian promises to an actor. Whoever drives it (`asyncio_base.ActorSystemBase` on
an asyncio loop, `tests.support.simulation.Simulation` under a virtual clock) supplies five hooks and calls
`run_turn` or `step`.

Order. Every actor has one mailbox, and messages leave it in the order in which they came: FIFO between any
pair of actors. Actors with mail take turns, at most `MESSAGES_PER_VISIT` messages each, so an actor that
writes to itself without end holds up nobody.

What actors say to each other goes before what descriptors have to say: a chunk of output that was read is on its way
to the client, and if that is too much for the client all that read are told to stop, before anybody reads more. Only
after VISITS_BEFORE_WATCH visits a descriptor has its turn all the same.

Messages are passed by reference, never copied: sender and receiver hold the same object, so a message must
not be changed after it is sent. Frozen structs keep that rule by themselves.

Mailboxes have no hard bound: to drop or refuse a message inside would break a promise to somebody. They are
bounded by what is let in at the edge. One descriptor watch holds at most one message in a mailbox, a timer
one, and a transport reads no further while its bridge has too much unanswered. `depth` and `deepest_mailbox`
show how it stands and a mailbox of MAILBOX_ALARM messages is logged, for that means that somebody at the
edge does not keep the rule.

Threads. Everything belongs to one thread, `thread_id`, except `Actor.send`, `Actor.wakeupAfter` and
`post_threadsafe`, which any thread may call.
"""

from __future__ import annotations

import copy
import logging
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ActorSystemFailure,
    ChildActorExited,
    DeadEnvelope,
    InvalidActorSpecification,
    NoCompatibleSystemForActor,
    PoisonMessage,
    Thespian_StatusReq,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)
from thespian.system.timing import timePeriodSeconds
from thespian.system.utilis import actualActorClass

from actors.engine.cell import NO_HANDLERS, SERIAL, Address, Cell, Sink
from actors.engine.dispatch import SUPER, ActorClass, Handlers
from actors.engine.sinks import NobodySink, SystemSink
from actors.engine.timers import Timers
from actors.engine.watches import CANCELLED, Watches

log = logging.getLogger("exec_server.engine")

MESSAGES_PER_VISIT = 16
"""How many messages an actor may handle before the next actor with mail has its turn."""

VISITS_BEFORE_WATCH = 64
"""How many visits to actors with mail may go before a descriptor that is ready is told to its actor."""

TURN_SECONDS = 0.0025
"""How long one turn may last before I/O is looked at again; a running handler is not interrupted."""

SLOW_HANDLER_SECONDS = 0.050
"""A handler that runs longer, by the clock on the wall, is logged."""

SLOW_CPU_SECONDS = 0.005
"""A handler that takes more CPU time of its thread is counted, while `count_slow_handlers` is on."""

MAILBOX_ALARM = 10_000
"""A mailbox this deep is logged, and again each time the deepest has doubled."""

_POOLED_MAILBOXES = 256


class Runtime:
    """All actors of one system, their mail, timers and watches.

    A subclass has the hooks `_schedule`, `_add_reader`, `_remove_reader`, `_arm_timer`, `_send_from_thread`.
    Public figures: `live_actors`, `dead_letters`, `deepest_mailbox`, `slow_handlers`.
    """

    def __init__(self, capabilities: dict[str, Any], system_address: ActorAddress, clock: Callable[[], float]) -> None:
        self.capabilities = capabilities
        self.clock = clock
        self.thread_id: int | None = get_ident()
        self.turn_seconds = TURN_SECONDS
        self.live_actors = 0
        self.dead_letters = 0
        self.deepest_mailbox = 0
        self.count_slow_handlers = bool(capabilities.get("Count Slow Handlers", False))
        self.slow_handlers: dict[tuple[str, str], int] = {}
        """(actor class, message class) -> handlers that took over SLOW_CPU_SECONDS of thread CPU time."""
        self.shutting_down = False
        self.names: dict[str, Cell] = {}
        self.dead_letter_handler: Cell | None = None
        self._depth_alarm = MAILBOX_ALARM
        self._cells: dict[int | str, Cell] = {}
        self._classes: dict[type, ActorClass] = {}
        self._ready: deque[Cell] = deque()
        self._watching: deque[tuple[Cell, WatchMessage]] = deque()
        self._visits = 0  # since a descriptor had its turn
        self._mailboxes: list[deque[tuple[Any, ActorAddress]]] = []
        self._scheduled = False
        self._in_turn = False
        self._after_turn: list[Callable[[], object]] = []
        self.timers = Timers()
        self.watches = Watches(self._add_reader, self._remove_reader)
        self._sources: Any = None
        self.system_cell = self.new_sink(SystemSink(self), system_address.addressDetails)
        self.nobody = self.new_sink(NobodySink()).address

    # What a driver supplies.

    def _schedule(self) -> None:
        """See to it that `run_turn` is called soon. Called once until that has happened."""
        raise NotImplementedError

    def _add_reader(self, fd: int, cell: Cell) -> None:
        """Call `fd_ready(cell, fd)` whenever `fd` is readable. OSError, ValueError, RuntimeError if not."""
        raise NotImplementedError

    def _remove_reader(self, fd: int) -> None:
        """Undo `_add_reader`; `fd` may be closed already."""
        raise NotImplementedError

    def _arm_timer(self, deadline: float) -> None:
        """See to it that `run_timers` is called at `deadline`, of `clock`, or soon after."""
        raise NotImplementedError

    def _send_from_thread(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call `function(*arguments)` on the engine's thread; called from another."""
        raise NotImplementedError

    def _all_gone(self) -> None:
        """The last actor is gone and the system is shutting down."""

    # Sending.

    def send(self, target: ActorAddress, message: Any, sender: ActorAddress) -> bool:
        """Put `message` in the mailbox of `target`; any thread. False: nobody is there, a dead letter."""
        if get_ident() != self.thread_id:
            self._send_from_thread(self.send, target, message, sender)
            return True
        cell = target._cell if target.__class__ is Address else self._resolve(target)
        if cell is None or cell.runtime is not self:
            self._dead_letter(target, message, sender)
            return False
        inbox = cell.inbox
        if inbox is None:
            pool = self._mailboxes
            cell.inbox = inbox = pool.pop() if pool else deque()
            self._ready.append(cell)
            if not self._scheduled:
                self._scheduled = True
                self._schedule()
        inbox.append((message, sender))
        return True

    def post(self, address: ActorAddress, message: Any) -> bool:
        """Send from outside, on the engine's thread, with nobody to answer to. False: the actor is gone."""
        return self.send(address, message, self.nobody)

    def post_threadsafe(self, address: ActorAddress, message: Any) -> None:
        """`post` from any thread."""
        self._send_from_thread(self.send, address, message, self.nobody)

    def call_after_turn(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, at the end of the current turn, or of the next if none is running.

        A callback that asks for another call gets it in the next turn. An exception of a callback is logged.
        """
        self._after_turn.append(callback)
        if not self._scheduled:
            self._scheduled = True
            self._schedule()

    def depth(self, address: ActorAddress) -> int:
        """How many messages wait in the mailbox of `address`; 0 if it is gone."""
        cell = self._resolve(address)
        return len(cell.inbox) if cell is not None and cell.inbox is not None else 0

    def waiting(self) -> dict[str, int]:
        """How many messages wait in mailboxes, by actor class."""
        found: dict[str, int] = {}
        for cell in self._ready:
            if cell.inbox is not None and cell.info is not None:
                found[cell.info.name] = found.get(cell.info.name, 0) + len(cell.inbox)
        return found

    def living(self) -> dict[str, int]:
        """How many actors there are, by class."""
        return dict(Counter(cell.info.name for cell in self._cells.values() if cell.info is not None))

    def handled(self) -> dict[str, tuple[int, float]]:
        """By actor class: how many messages were handled, and the seconds that it took."""
        return {info.name: (info.messages, info.seconds) for info in self._classes.values()}

    def new_sink(self, sink: Sink, details: int | str | None = None) -> Cell:
        """An address whose messages `sink` gets. Give it back with `drop_sink`."""
        cell = Cell(self, next(SERIAL) if details is None else details, None)
        cell.sink = sink
        self._cells[cell.address._aaddr] = cell
        return cell

    def drop_sink(self, cell: Cell) -> None:
        """What is sent to this sink's address from now on is a dead letter."""
        self._cells.pop(cell.address._aaddr, None)
        cell.address._cell = None
        cell.sink = None
        cell.inbox = None

    def _resolve(self, address: ActorAddress) -> Cell | None:
        if address.__class__ is Address:
            return address._cell
        try:
            return self._cells.get(address.addressDetails)
        except TypeError:  # unhashable: the address of some other system base
            return None

    def _dead_letter(self, target: ActorAddress, message: Any, sender: ActorAddress) -> None:
        self.dead_letters += 1
        origin = self._resolve(sender)
        if origin is not None and origin.sink is not None:
            origin.sink.undeliverable(message)
        handler = self.dead_letter_handler
        if handler is not None and not isinstance(message, (DeadEnvelope, ChildActorExited)):
            self.send(handler.address, DeadEnvelope(target, message), self.system_cell.address)

    # Turns.

    @property
    def has_work(self) -> bool:
        """Whether a turn would find something to do."""
        return bool(self._ready or self._watching or self._after_turn)

    def run_turn(self) -> None:
        """Let the actors with mail handle it for up to `turn_seconds`, then run the after-turn callbacks."""
        self._in_turn = True
        self._scheduled = True
        ready, watching = self._ready, self._watching
        now = time.monotonic
        deliver = self._deliver_counted if self.count_slow_handlers else self._deliver
        last = now()
        end = last + self.turn_seconds
        cell: Cell | None = None
        try:
            while ready or watching:
                if watching and (self._visits >= VISITS_BEFORE_WATCH or not ready):
                    self._visits = 0
                    watcher, watch_message = watching.popleft()
                    if watcher.watch is not None and watcher.watch.pending is watch_message:
                        deliver(watcher, watch_message, watcher.address)
                        before, last = last, now()
                        if watcher.info is not None:
                            watcher.info.messages += 1
                            watcher.info.seconds += last - before
                        if last - before > SLOW_HANDLER_SECONDS:
                            _log_slow(watcher, watch_message, last - before)
                        if last > end:
                            break
                    continue
                self._visits += 1
                cell = ready.popleft()
                inbox = cell.inbox
                if inbox is None:  # ended while it waited for its turn
                    continue
                depth = len(inbox)
                if depth > self.deepest_mailbox:
                    self._note_depth(cell, depth)
                began = last
                for handled in range(1, MESSAGES_PER_VISIT + 1):  # noqa: B007 - used after the loop
                    message, sender = inbox.popleft()
                    deliver(cell, message, sender)
                    before, last = last, now()
                    if last - before > SLOW_HANDLER_SECONDS:
                        _log_slow(cell, message, last - before)
                    if not inbox or last > end:
                        break
                info = cell.info
                if info is not None:
                    info.messages += handled
                    info.seconds += last - began
                self._put_back(cell, inbox)
                cell = None
                if last > end:
                    break
            if self._after_turn:
                self._run_after_turn()
        finally:
            if cell is not None and cell.inbox is not None:  # left by a KeyboardInterrupt
                self._put_back(cell, cell.inbox)
            self._in_turn = False
            if ready or watching or self._after_turn:
                self._schedule()
            else:
                self._scheduled = False

    def step(self, choose: Callable[[int], int]) -> bool:
        """Deliver one message to one actor with mail: the `choose(n)`-th of n. False: nobody has mail.

        For drivers that decide the order of events themselves; after-turn callbacks run after each step.
        """
        ready, watching = self._ready, self._watching
        while ready or watching:
            index = choose(len(ready) + len(watching))
            if index >= len(ready):
                watcher, watch_message = watching[index - len(ready)]
                del watching[index - len(ready)]
                if watcher.watch is None or watcher.watch.pending is not watch_message:
                    continue
                self._step(watcher, watch_message, watcher.address)
                return True
            cell = ready[index]
            del ready[index]
            inbox = cell.inbox
            if inbox is None:
                continue
            message, sender = inbox.popleft()
            try:
                self._step(cell, message, sender)
            finally:
                self._put_back(cell, inbox)
            return True
        if self._after_turn:
            self._run_after_turn()
            return True
        return False

    def _step(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        self._in_turn = True
        try:
            self._deliver(cell, message, sender)
        finally:
            self._in_turn = False
        self._run_after_turn()

    def _put_back(self, cell: Cell, inbox: deque[tuple[Any, ActorAddress]]) -> None:
        if cell.inbox is not inbox:  # it has ended, and its mailbox with it
            return
        if inbox:
            self._ready.append(cell)
            return
        cell.inbox = None
        if len(self._mailboxes) < _POOLED_MAILBOXES:
            self._mailboxes.append(inbox)

    def _run_after_turn(self) -> None:
        callbacks, self._after_turn = self._after_turn, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("a callback after the turn failed")

    def _note_depth(self, cell: Cell, depth: int) -> None:
        self.deepest_mailbox = depth
        if depth >= self._depth_alarm:
            self._depth_alarm = depth * 2
            log.warning("%d messages wait for %s at %s", depth, cell.class_name, cell.address)

    # One message.

    def _deliver(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        kind = message.__class__
        if kind is WatchMessage:
            watch = cell.watch
            if watch is not None and watch.pending is message:
                watch.pending = None
            elif message.ready is CANCELLED:
                return
        handlers = cell.handlers.get(kind)
        if handlers is None:
            handlers = self._unusual(cell, message, sender)
            if handlers is None:
                return
        instance = cell.instance
        result: Any = None
        try:
            for handler in handlers:
                result = handler(instance, message, sender)
                if result is None or result != SUPER:
                    break
        except Exception:
            result = self._retry(cell, handlers, message, sender)
        except SystemExit:
            self._exit_of_itself(cell)
            return
        if result.__class__ is ThespianWatch:
            watch = cell.watch
            if watch is None or result.filenos != watch.fds:
                self.watches.set(cell, result.filenos)
        elif cell.watch is not None:
            self.watches.set(cell, result.filenos if isinstance(result, ThespianWatch) else ())

    def _deliver_counted(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        name = cell.class_name
        before = time.thread_time()
        self._deliver(cell, message, sender)
        if time.thread_time() - before > SLOW_CPU_SECONDS:
            key = (name, message.__class__.__name__)
            self.slow_handlers[key] = self.slow_handlers.get(key, 0) + 1

    def _retry(self, cell: Cell, handlers: Handlers, message: Any, sender: ActorAddress) -> Any:
        """Thespian's rule: once more with a deep copy, then PoisonMessage to the sender and no watch."""
        name = cell.class_name
        log.warning("%s at %s failed on %s, trying again", name, cell.address, _kind(message), exc_info=True)
        instance = cell.instance
        result: Any = None
        try:
            again = copy.deepcopy(message)
            for handler in handlers:
                result = handler(instance, again, sender)
                if result is None or result != SUPER:
                    break
            return result
        except SystemExit:
            self._exit_of_itself(cell)
        except Exception:
            log.error("%s at %s failed again on %s", name, cell.address, _kind(message), exc_info=True)
            if not isinstance(message, PoisonMessage):
                self.send(sender, PoisonMessage(message, traceback.format_exc()), cell.address)
        return None

    def _unusual(self, cell: Cell, message: Any, sender: ActorAddress) -> Handlers | None:
        """Sinks, messages the engine has a part in, the first message of a class. None: it is dealt with."""
        if cell.sink is not None:
            cell.sink.receive(message, sender)
            return None
        if cell.info is None:
            return None
        if isinstance(message, ActorExitRequest):
            self._exit_requested(cell, message, sender)
            return None
        if isinstance(message, ChildActorExited):
            self._child_exited(cell, message, sender)
            return None
        if isinstance(message, Thespian_StatusReq):
            from actors.engine.status import actor_status

            self.send(sender, actor_status(self, cell), cell.address)
            return None
        if cell.exiting:
            if not isinstance(message, (WatchMessage, WakeupMessage)):
                self._dead_letter(cell.address, message, sender)
            return None
        return cell.info.handlers_for(message.__class__, cell.info.handlers)

    def _handle(self, cell: Cell, message: Any, sender: ActorAddress, retry: bool) -> Any:
        """Run the handlers of a message the engine has a part in; their result."""
        info = cell.info
        if info is None:
            return None
        handlers = info.handlers_for(message.__class__, info.system_handlers)
        result: Any = None
        try:
            for handler in handlers:
                result = handler(cell.instance, message, sender)
                if result is None or result != SUPER:
                    break
        except Exception:
            if retry:
                return self._retry(cell, handlers, message, sender)
            log.warning("%s failed on %s", cell.class_name, _kind(message), exc_info=True)
            return None
        except SystemExit:
            self._exit_of_itself(cell)
            return None
        return result

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
            return self._new_actor(self.system_cell, info, requirements, global_name, source_hash).address
        except NoCompatibleSystemForActor:
            raise
        except (Exception, SystemExit):
            log.error("the constructor of %s failed", info.name, exc_info=True)
            return Address(next(SERIAL), None)

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
        if get_ident() != self.thread_id:
            raise RuntimeError("createActor called outside the engine's thread")
        if global_name and global_name in self.names:
            return self.names[global_name].address
        if parent.exiting or parent.instance is None or self.shutting_down:
            return Address(next(SERIAL), None)
        source_hash = source_hash or parent.source_hash
        try:
            info = self._actor_class(actor_class, source_hash)
            owner = self.system_cell if global_name else parent
            return self._new_actor(owner, info, requirements, global_name, source_hash).address
        except (Exception, SystemExit) as error:
            if isinstance(error, NoCompatibleSystemForActor):
                log.info("%s", error)
            else:
                log.error("%s could not create %s", parent.class_name, actor_class, exc_info=True)
            address = Address(next(SERIAL), None)
            self.send(parent.address, ChildActorExited(address), self.system_cell.address)
            return address

    def _actor_class(self, actor_class: type | str, source_hash: str | None) -> ActorClass:
        if isinstance(actor_class, str):
            loader = self.sources.loader(source_hash) if source_hash else None
            try:
                actor_class = actualActorClass(actor_class, loader)
            except AttributeError as error:
                raise InvalidActorSpecification(actor_class, str(error)) from error
        info = self._classes.get(actor_class)  # type: ignore[arg-type]
        if info is None:
            if not isinstance(actor_class, type):
                raise InvalidActorSpecification(actor_class)
            info = self._classes[actor_class] = ActorClass(actor_class)
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
        cell = Cell(self, next(SERIAL), parent)
        cell.instance = instance
        cell.info = info
        cell.handlers = info.handlers
        cell.requirements = requirements
        cell.globalName = global_name
        instance._myRef = cell
        serial = cell.address._aaddr
        self._cells[serial] = cell
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

    def _exit_requested(self, cell: Cell, message: ActorExitRequest, sender: ActorAddress) -> None:
        self.watches.set(cell, ())  # before the handler, which may close what was watched
        self._handle(cell, message, sender, retry=False)
        if cell.instance is not None:
            self._exit(cell, message.isRecursive)

    def _exit_of_itself(self, cell: Cell) -> None:
        """sys.exit() in a handler: on other bases it ends the actor's process, so it ends the actor here."""
        log.warning("%s at %s ended itself by SystemExit", cell.class_name, cell.address)
        self.watches.set(cell, ())
        self._exit(cell, recursive=True)

    def _exit(self, cell: Cell, recursive: bool) -> None:
        if cell.exiting:
            return
        cell.exiting = True
        cell.handlers = NO_HANDLERS
        if recursive and cell.children:
            for child in list(cell.children.values()):
                if child.instance is not None:
                    self.send(child.address, ActorExitRequest(recursive=True), cell.address)
            return  # goes on when the last child has exited
        self._bury(cell)

    def _child_exited(self, cell: Cell, message: ChildActorExited, sender: ActorAddress) -> None:
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

    def _bury(self, cell: Cell) -> None:
        """Take an actor out of everything. Children that it leaves belong to the system from now on."""
        serial = cell.address._aaddr
        self.watches.set(cell, ())
        self._cells.pop(serial, None)
        cell.address._cell = None
        cell.instance = None
        cell.handlers = NO_HANDLERS
        self.timers.drop(cell)
        if cell.globalName:
            self.names.pop(cell.globalName, None)
        if self.dead_letter_handler is cell:
            self.dead_letter_handler = None
        system = self.system_cell
        if cell.children:
            for child in cell.children.values():
                if child.instance is not None:
                    child.parent = system
                    system.children = system.children or {}
                    system.children[child.address._aaddr] = child
                    if self.shutting_down:
                        self.send(child.address, ActorExitRequest(recursive=True), system.address)
            cell.children = None
        inbox, cell.inbox = cell.inbox, None
        if inbox:
            letters = list(inbox)
            inbox.clear()
            for message, sender in letters:
                if not isinstance(message, (WatchMessage, WakeupMessage)):
                    self._dead_letter(cell.address, message, sender)
        parent, cell.parent = cell.parent, None
        if parent is system:
            if system.children:
                system.children.pop(serial, None)
        elif parent is not None and parent.instance is not None:
            self.send(parent.address, ChildActorExited(cell.address), system.address)
        if self._sources is not None:
            self._sources.forget(cell.address, cell.source_hash)
        self.live_actors -= 1
        if self.shutting_down and not self.live_actors:
            self._all_gone()

    def begin_shutdown(self) -> None:
        """Ask every actor to exit, parents first. `_all_gone` is called when the last has done so."""
        if self.shutting_down:
            return
        self.shutting_down = True
        for child in list((self.system_cell.children or {}).values()):
            self.send(child.address, ActorExitRequest(recursive=True), self.system_cell.address)
        if not self.live_actors:
            self._all_gone()

    def bury_all(self) -> None:
        """End whatever still lives without asking."""
        left = [cell for cell in self._cells.values() if cell.instance is not None]
        if left:
            log.warning("%d actors had not exited at the end of the shutdown", len(left))
        for cell in left:
            cell.children = None
            self._bury(cell)

    # Timers.

    def wake_after(self, cell: Cell, period: Any, payload: Any) -> None:
        """Send the actor WakeupMessage(period, payload) once `period`, seconds or timedelta, has passed."""
        if get_ident() != self.thread_id:
            self._send_from_thread(self.wake_after, cell, period, payload)
            return
        if cell.instance is None:
            return
        deadline = self.clock() + timePeriodSeconds(period)
        if self.timers.add(deadline, cell, WakeupMessage(period, payload)):
            self._arm_timer(deadline)

    @property
    def next_timer(self) -> float | None:
        """When the earliest wakeup of a living actor is due, by `clock`."""
        return self.timers.next

    def run_timers(self) -> None:
        """Send every wakeup that is due and arm the timer for the next."""
        now = self.clock()
        while (deadline := self.timers.next) is not None and deadline <= now:
            cell, message = self.timers.take()
            self.send(cell.address, message, cell.address)
        if deadline is not None:
            self._arm_timer(deadline)

    # Watches.

    def fd_ready(self, cell: Cell, fd: int) -> None:
        """`fd` is readable: tell the actor, with the message that is on its way already if there is one."""
        watch = cell.watch
        if watch is None or fd not in watch.fds:
            return
        pending = watch.pending
        if pending is None:
            watch.pending = pending = WatchMessage([fd])
            self._watching.append((cell, pending))
            if not self._scheduled:
                self._scheduled = True
                self._schedule()
        elif fd not in pending.ready:
            pending.ready.append(fd)

    # The rest of what Thespian offers to actors.

    @property
    def sources(self) -> Any:
        """The loaded sources; imported when first used, since it costs 9 ms and most systems load none."""
        if self._sources is None:
            from actors.engine.sources import Sources

            self._sources = Sources(self)
        return self._sources

    def handle_dead_letters(self, address: ActorAddress, enable: bool) -> None:
        """The actor gets dead letters from now on (the last to ask is the only one), or no more."""
        cell = self._resolve(address)
        if enable:
            self.dead_letter_handler = cell
        elif self.dead_letter_handler is cell:
            self.dead_letter_handler = None

    def update_capability(self, name: str, value: Any) -> None:
        """Set a capability, or remove it (None). Actors that cannot run without it are told to exit."""
        if value is None:
            self.capabilities.pop(name, None)
        else:
            self.capabilities[name] = value
        for cell in list(self._cells.values()):
            info = cell.info
            if info is not None and info.requires and not info.runs_with(self.capabilities, cell.requirements):
                self.send(cell.address, ActorExitRequest(), self.system_cell.address)


def _kind(message: Any) -> str:
    name: str = message.__class__.__name__
    return name


def _log_slow(cell: Cell, message: Any, seconds: float) -> None:
    kind = message.__class__.__name__
    log.warning("slow handler: %s took %.0f ms over %s", cell.class_name, seconds * 1000, kind)
