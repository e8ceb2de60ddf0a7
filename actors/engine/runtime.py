"""The runtime: all that Thespian promises to an actor, with no I/O and no asyncio.

Whoever drives it (`asyncio_base.ActorSystemBase` on an asyncio loop, a simulation under a virtual clock) supplies the
hooks and calls `turns.run` or `turns.step`, `run_timers` and `watches.fd_ready`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from thespian.actors import ActorAddress, WakeupMessage
from thespian.system.timing import timePeriodSeconds

from actors.engine.cell import Cell, Group
from actors.engine.life import Life
from actors.engine.mail import Mail
from actors.engine.sinks import NobodySink, SystemSink
from actors.engine.timers import Timers
from actors.engine.turns import Turns
from actors.engine.watches import Watches


class Runtime:
    """One system's actors: their `mail`, `turns`, `life`, `timers` and `watches`, and what drives them.

    A subclass has the hooks `_schedule`, `_add_reader`, `_remove_reader`, `_arm_timer`, `_send_from_thread`.
    """

    def __init__(self, capabilities: dict[str, Any], system_address: ActorAddress, clock: Callable[[], float]) -> None:
        self.capabilities = capabilities
        self.clock = clock
        self.mail = Mail(self._schedule, self._send_from_thread)
        self.timers = Timers()
        self.watches = Watches(self._add_reader, self._remove_reader, self.mail.wake)
        sink = SystemSink(self._send_system_status, lambda digest, data: self.life.sources.validated(digest, data))
        system = self.mail.new_sink(sink, system_address.addressDetails)
        self.mail.system_address = system.address
        self.nobody = self.mail.new_sink(NobodySink()).address
        new_cell = partial(ActorCell, self)
        self.life = Life(capabilities, self.mail, self.timers, self.watches, system, new_cell, self._all_gone)
        self.turns = Turns(self.mail, self.watches, self.life, self._send_actor_status, clock)
        self.turns.count_slow_handlers = bool(capabilities.get("Count Slow Handlers", False))

        self.send = self.mail.send  # bound once, for the cells of all actors
        self.post: Callable[[ActorAddress, Any], bool] = partial(self.send, self.nobody)
        """`post(address, message)` sends from outside, with nobody to answer to. False: the actor is gone."""
        self.call_after_turn = self.turns.call_after_turn
        self.create_primary = self.life.create_primary

    # What a driver supplies.

    def _schedule(self) -> None:
        """See to it that `turns.run` is called soon. Called once until that has happened."""
        raise NotImplementedError

    def _add_reader(self, fd: int, cell: Cell) -> None:
        """Call `watches.fd_ready(cell, fd)` whenever `fd` is readable. OSError, ValueError, RuntimeError if not."""
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

    def post_threadsafe(self, address: ActorAddress, message: Any) -> None:
        """`post` from any thread."""
        self._send_from_thread(self.post, address, message)

    # Figures.

    @property
    def live_actors(self) -> int:
        """How many actors there are."""
        return self.life.live_actors

    @property
    def dead_letters(self) -> int:
        """How many messages have reached nobody."""
        return self.mail.dead_letters

    @property
    def deepest_mailbox(self) -> int:
        """How many messages waited in the fullest mailbox so far."""
        return self.mail.deepest

    def waiting(self) -> dict[str, int]:
        """How many messages wait in mailboxes, by actor class."""
        return self.mail.waiting()

    def living(self) -> dict[str, int]:
        """How many actors there are, by class."""
        return self.life.living()

    def handled(self) -> dict[str, tuple[int, float]]:
        """By actor class: how many messages were handled, and the seconds that it took."""
        return self.life.handled()

    def _send_actor_status(self, cell: Cell, asker: ActorAddress) -> None:
        from actors.engine.status import actor_status

        status = actor_status(cell, self.life.system.address, self.timers, self.clock())
        self.mail.send(cell.address, asker, status)

    def _send_system_status(self, asker: ActorAddress) -> None:
        from actors.engine.status import system_status

        self.life.tell(asker, system_status(self.life, self.clock(), self.turns.slow_handlers))

    # Timers.

    def wake_after(self, cell: Cell, period: Any, payload: Any) -> None:
        """Send the actor WakeupMessage(period, payload) once `period`, seconds or timedelta, has passed; any thread."""
        if get_ident() != self.mail.thread_id:
            self._send_from_thread(self.wake_after, cell, period, payload)
            return
        if cell.instance is None:
            return
        deadline = self.clock() + timePeriodSeconds(period)
        if self.timers.add(deadline, cell, WakeupMessage(period, payload)):
            self._arm_timer(deadline)

    def run_timers(self) -> None:
        """Send every wakeup that is due and arm the timer for the next."""
        now = self.clock()
        while (deadline := self.timers.next) is not None and deadline <= now:
            cell, message = self.timers.take()
            self.mail.send(cell.address, cell.address, message)
        if deadline is not None:
            self._arm_timer(deadline)


class ActorCell(Cell):
    """The cell of an actor, which knows it as `_myRef` and calls the camelCase methods."""

    __slots__ = ("actor_send", "runtime")

    def __init__(self, runtime: Runtime, group: Group, parent: Cell) -> None:
        super().__init__(runtime.mail, group, parent)
        self.runtime = runtime
        # No method: it would be one more call for each message.
        self.actor_send = partial(runtime.send, self.address)

    def createActor(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        if get_ident() != self.runtime.mail.thread_id:
            raise RuntimeError("createActor called outside the engine's thread")
        return self.runtime.life.create_child(self, actor_class, requirements, global_name, source_hash)

    def wakeupAfter(self, period: Any, payload: Any = None) -> None:
        self.runtime.wake_after(self, period, payload)

    def handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.runtime.mail.handle_dead_letters(address, enable)

    def updateCapability(self, name: str, value: Any) -> None:
        self.runtime.life.update_capability(name, value)

    def registerSourceAuthority(self, address: ActorAddress) -> None:
        self.runtime.life.sources.authority = address

    def notifyOnSourceAvailability(self, address: ActorAddress, enable: bool) -> None:
        self.runtime.life.sources.notify(address, enable)

    def loadActorSource(self, source: Any) -> str:
        return self.runtime.life.sources.load(source)

    def unloadActorSource(self, source_hash: str) -> None:
        self.runtime.life.sources.unload(source_hash)

    def notifyOnSystemRegistrationChanges(self, address: ActorAddress, enable: bool) -> None:
        """One system alone has no convention whose changes could be told."""

    def preRegisterRemoteSystem(self, address: Any, capabilities: dict[str, Any]) -> None:
        """One system alone has no convention to register others with."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """One system alone has no convention to take others out of."""

    def actorSystemShutdown(self) -> None:
        self.runtime.life.begin_shutdown()
