"""Turns: whose mail is handled next, and for how long.

Fairness is counted in time. Groups of actors (see `cell.Group`) with mail take turns, and in a group its actors. A
visit to an actor lasts VISIT_SECONDS: it ends with the message that crosses them. A group whose visit was longer,
since a running handler is not interrupted, is passed over until the others could have had as much. So an actor that
writes to itself without end holds up nobody, nor does one whose messages take long, nor a session of a thousand.

What actors say to each other goes before what descriptors have to say: a chunk of output that was read is on its way
to the client, and if that is too much for the client all that read are told to stop, before anybody reads more. So
descriptors have their turn when no mail is left: one, then the mail that comes of it, then the next. Only when mail
has gone on for a whole turn they have theirs all the same, one of each group, for one turn at most.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    Thespian_StatusReq,
    ThespianWatch,
    WakeupMessage,
    WatchMessage,
)

from actors.engine.cell import Cell, Group
from actors.engine.dispatch import Handler
from actors.engine.failures import failed
from actors.engine.life import Life
from actors.engine.mail import POOLED_MAILBOXES, Mail
from actors.engine.watches import Watches

log = logging.getLogger("exec_server.engine")

VISIT_SECONDS = 0.00025
"""How long an actor may handle messages before the next group with mail has its turn."""

TURN_SECONDS = 0.0025
"""How long one turn may last before I/O is looked at again, and mail go on before descriptors have their turn."""

SLOW_HANDLER_SECONDS = 0.050
"""A handler that runs longer, by the clock on the wall, is logged."""

SLOW_CPU_SECONDS = 0.005
"""A handler that takes more CPU time of its thread is counted, while `count_slow_handlers` is on."""


class Turns:
    """The order in which one system's actors handle their mail.

    `send_status(cell, asker)` answers a Thespian_StatusReq to an actor. `now` reads seconds of a steady clock.
    """

    def __init__(
        self,
        mail: Mail,
        watches: Watches,
        life: Life,
        send_status: Callable[[Cell, ActorAddress], object],
        now: Callable[[], float],
    ) -> None:
        self.turn_seconds = TURN_SECONDS
        self.running = False
        self.count_slow_handlers = False
        self.slow_handlers: dict[tuple[str, str], int] = {}
        """(actor class, message class) -> handlers that took over SLOW_CPU_SECONDS of thread CPU time."""
        self._mail = mail
        self._watches = watches
        self._life = life
        self._send_status = send_status
        self._now = now
        self._mail_seconds = 0.0  # since a descriptor had its turn
        self._after_turn: list[Callable[[], object]] = []

    @property
    def has_work(self) -> bool:
        """Whether a turn would find something to do."""
        return bool(self._mail.ready or self._watches.ready or self._after_turn)

    def call_after_turn(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, at the end of the current turn, or of the next if none is running.

        A callback that asks for another call gets it in the next turn. An exception of a callback is logged.
        """
        self._after_turn.append(callback)
        self._mail.wake()

    def clear(self) -> None:
        """Forget all that waits for a turn, at the end of the system."""
        self._mail.ready.clear()
        self._watches.ready.clear()
        self._after_turn.clear()

    def run(self) -> None:
        """Let actors handle their mail for up to `turn_seconds`, then run the after-turn callbacks."""
        mail, watches = self._mail.ready, self._watches.ready
        self.running = self._mail.scheduled = True
        last = self._now()
        end = last + self.turn_seconds
        try:
            while mail or watches:
                if watches and (not mail or self._mail_seconds > self.turn_seconds):
                    last = self._tell_watchers(last, end)
                else:
                    began, last = last, self._visit(last)
                    self._mail_seconds += last - began
                if last > end:
                    break
            if not mail:
                self._mail_seconds = 0.0
            self._run_after_turn()
        finally:
            self.running = self._mail.scheduled = False
            if self.has_work:
                self._mail.wake()

    def _visit(self, began: float) -> float:
        """Let the next actor of the next group handle mail for VISIT_SECONDS; when that is over."""
        mail, now = self._mail, self._now
        ready = mail.ready
        group = ready.popleft()
        if group.debt > 0.0 and ready:
            group = self._pass_over(group)
        cell = group.mail.popleft()
        if group.mail:
            ready.append(group)
        inbox = cell.inbox
        if inbox is None:  # ended while it waited for its turn
            return began
        if len(inbox) > mail.deepest:
            mail.note_depth(cell, len(inbox))
        deliver = self._deliver_counted if self.count_slow_handlers else self._deliver
        last, end, handled = began, began + VISIT_SECONDS, 0
        try:
            while inbox and last <= end:
                message, sender = inbox.popleft()
                handled += 1
                deliver(cell, message, sender)
                before, last = last, now()
                if last - before > SLOW_HANDLER_SECONDS:
                    _log_slow(cell, message, last - before)
        finally:
            if inbox:
                mail.queue(cell)
            elif cell.inbox is not None:
                cell.inbox = None
                if len(mail.pool) < POOLED_MAILBOXES:
                    mail.pool.append(inbox)
        if last > end:
            group.debt = min(group.debt + last - end, self.turn_seconds)
        info = cell.info
        if info is not None:
            info.messages += handled
            info.seconds += last - began
        return last

    def _pass_over(self, group: Group) -> Group:
        """The next group that owes the others no time, where `group` is the first."""
        ready = self._mail.ready
        while group.debt > 0.0:
            group.debt -= VISIT_SECONDS
            ready.append(group)
            group = ready.popleft()
        return group

    def _tell_watchers(self, last: float, end: float) -> float:
        """Tell an actor that its descriptors are ready, or one of each group if mail waits; when that is over."""
        self._mail_seconds = 0.0
        deliver = self._deliver_counted if self.count_slow_handlers else self._deliver
        for _ in range(len(self._watches.ready) if self._mail.ready else 1):
            watcher = self._watches.take()
            if watcher is None:
                continue
            cell, message = watcher
            deliver(cell, message, cell.address)
            before, last = last, self._now()
            if cell.info is not None:
                cell.info.messages += 1
                cell.info.seconds += last - before
            if last - before > SLOW_HANDLER_SECONDS:
                _log_slow(cell, message, last - before)
            if last > end:
                break
        return last

    def step(self, choose: Callable[[int], int]) -> bool:
        """Deliver one message to one actor with mail: the `choose(n)`-th of n. False: nobody has mail.

        The 0-th is the next of the next group. For drivers that decide the order of events themselves; after-turn
        callbacks run after each step.
        """
        mail, watches = self._mail.ready, self._watches.ready
        while mail or watches:
            waiting = [(group, cell) for group in mail for cell in group.mail]
            watching = [(group, watcher) for group in watches for watcher in group.watches]
            index = choose(len(waiting) + len(watching))
            if index < len(waiting):
                group, cell = waiting[index]
                group.mail.remove(cell)
                mail.remove(group)
                if group.mail:
                    mail.append(group)
                if cell.inbox is None:
                    continue
                message, sender = cell.inbox.popleft()
                try:
                    self._step(cell, message, sender)
                finally:
                    if cell.inbox:
                        self._mail.queue(cell)
                    else:
                        cell.inbox = None
                return True
            group, watcher = watching[index - len(waiting)]
            group.watches.remove(watcher)
            watches.remove(group)
            if group.watches:
                watches.append(group)
            cell, told = watcher
            if cell.watch is None or cell.watch.pending is not told:
                continue
            cell.watch.pending = None
            self._step(cell, told, cell.address)
            return True
        if self._after_turn:
            self._run_after_turn()
            return True
        return False

    def _step(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        self.running = True
        try:
            self._deliver(cell, message, sender)
        finally:
            self.running = False
        self._run_after_turn()

    def _run_after_turn(self) -> None:
        if not self._after_turn:
            return
        callbacks, self._after_turn = self._after_turn, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("a callback after the turn failed")

    # One message.

    def _deliver(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        handler = cell.handlers.get(message.__class__)
        if handler is None:
            handler = self._unusual(cell, message, sender)
            if handler is None:
                return
        try:
            try:
                result = handler(cell.instance, message, sender)
            except Exception as error:
                result = failed(self._mail, cell, handler, message, sender, error)
        except SystemExit:
            self._life.exit_of_itself(cell)
            return
        if result.__class__ is ThespianWatch:
            watch = cell.watch
            if watch is None or result.filenos != watch.fds:
                self._watches.set(cell, result.filenos)
        elif cell.watch is not None:
            self._watches.set(cell, result.filenos if isinstance(result, ThespianWatch) else ())

    def _deliver_counted(self, cell: Cell, message: Any, sender: ActorAddress) -> None:
        name = cell.class_name
        before = time.thread_time()
        self._deliver(cell, message, sender)
        if time.thread_time() - before > SLOW_CPU_SECONDS:
            key = (name, message.__class__.__name__)
            self.slow_handlers[key] = self.slow_handlers.get(key, 0) + 1

    def _unusual(self, cell: Cell, message: Any, sender: ActorAddress) -> Handler | None:
        """Sinks, messages the engine has a part in, the first message of a class. None: it is dealt with."""
        if cell.sink is not None:
            cell.sink.receive(message, sender)
            return None
        if cell.info is None:
            return None
        if isinstance(message, ActorExitRequest):
            self._life.exit_requested(cell, message, sender)
            return None
        if isinstance(message, ChildActorExited):
            self._life.child_exited(cell, message, sender)
            return None
        if isinstance(message, Thespian_StatusReq):
            self._send_status(cell, sender)
            return None
        if cell.exiting:
            if not isinstance(message, (WatchMessage, WakeupMessage)):
                self._mail.dead_letter(sender, cell.address, message)
            return None
        return cell.info.handler(message.__class__)


def _log_slow(cell: Cell, message: Any, seconds: float) -> None:
    kind = message.__class__.__name__
    log.warning("slow handler: %s took %.0f ms over %s", cell.class_name, seconds * 1000, kind)
