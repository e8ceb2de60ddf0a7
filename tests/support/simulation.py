"""Actors under a virtual clock and a seeded order of messages: a race that fails is replayed from its seed.

    with Simulation(seed) as simulation:
        router = simulation.createActor(RouterActor)
        probe = simulation.probe()
        simulation.tell(router, Something(), sender=probe)
        simulation.run_until_idle()
        simulation.advance(80.0)
        assert probe.messages == [...]

At each step one of the actors with mail is chosen by the seed and handles one message, so messages of one
sender to one receiver stay in order and everything else may happen in any order. Time stands still while
there is mail and jumps from wakeup to wakeup otherwise. `actors.system.clock.now()` reads the virtual clock while
the simulation is open, so only one can be open at a time. There are no threads and no descriptors:
`fd_is_ready` plays a descriptor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from thespian.actors import ActorAddress

from actors.engine.cell import Cell
from actors.engine.runtime import Runtime
from actors.system import clock


class Probe:
    """An address outside of the actors that keeps what is sent to it, as (message, sender), in order."""

    def __init__(self, simulation: Simulation) -> None:
        self._cell = simulation.mail.new_sink(self)
        self.received: list[tuple[Any, ActorAddress]] = []
        self.undelivered: list[Any] = []

    @property
    def address(self) -> ActorAddress:
        return self._cell.address

    @property
    def messages(self) -> list[Any]:
        return [message for message, _ in self.received]

    def of(self, *kinds: type) -> list[Any]:
        """The messages of these classes."""
        return [message for message in self.messages if isinstance(message, kinds)]

    def take(self) -> list[Any]:
        """The messages since the last `take`."""
        messages = self.messages
        self.received.clear()
        return messages

    def receive(self, message: Any, sender: ActorAddress) -> None:
        self.received.append((message, sender))

    def undeliverable(self, message: Any) -> None:
        self.undelivered.append(message)


class Simulation(Runtime):
    """The engine driven by a seed. Use it as a context manager, or call `close`."""

    def __init__(self, seed: int | random.Random, capabilities: dict[str, Any] | None = None) -> None:
        self._random = seed if isinstance(seed, random.Random) else random.Random(seed)
        self._now = 1000.0
        self.steps = 0
        self.watched: dict[int, Cell] = {}
        super().__init__(dict(capabilities or {}), ActorAddress("/ActorSys"), self._read_clock)
        self._previous = clock.replace(self._read_clock)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every actor, mail in seeded order, and give `actors.system.clock` its real clock back."""
        try:
            self.life.begin_shutdown()
            self.run_until_idle()
            self.life.bury_all()
        finally:
            clock.replace(self._previous)

    # Acting from outside.

    def createActor(
        self,
        actor_class: type | str,
        targetActorRequirements: dict[str, Any] | None = None,
        globalName: str | None = None,
    ) -> ActorAddress:
        return self.create_primary(actor_class, targetActorRequirements, globalName)

    def probe(self) -> Probe:
        return Probe(self)

    def tell(self, address: ActorAddress, message: Any, sender: Probe | ActorAddress | None = None) -> None:
        """Put a message in a mailbox; it is handled when the seed says so."""
        origin = sender.address if isinstance(sender, Probe) else sender
        self.mail.send(origin if origin is not None else self.nobody, address, message)

    def ask(self, address: ActorAddress, message: Any) -> Any:
        """Tell, run until idle, and give the first answer; AssertionError if there is none."""
        probe = self.probe()
        self.tell(address, message, probe)
        self.run_until_idle()
        self.mail.drop_sink(probe._cell)
        assert probe.received, f"no answer to {message!r}"
        return probe.messages[0]

    def fd_is_ready(self, fd: int) -> None:
        """A descriptor became readable; KeyError if no actor watches it."""
        self.watches.fd_ready(self.watched[fd], fd)

    def instance(self, address: ActorAddress) -> Any:
        """The actor itself, to look at; None if it is gone."""
        cell = self.mail.resolve(address)
        return None if cell is None else cell.instance

    # Time and order.

    @property
    def now(self) -> float:
        return self._now

    def deliver_one(self) -> bool:
        """One message to one actor, chosen by the seed. False: no mail anywhere."""
        delivered = self.turns.step(self._random.randrange)
        self.steps += delivered
        return delivered

    def run_until_idle(self, limit: int = 1_000_000) -> None:
        """Deliver until there is no mail; time stands still. AssertionError after `limit` steps."""
        for _ in range(limit):
            if not self.deliver_one():
                return
        raise AssertionError(f"still busy after {limit} messages")

    def run_until(self, deadline: float) -> None:
        """Run everything that happens up to `deadline`, a value of `now`, which is the time afterwards."""
        self.run_until_idle()
        while (due := self.timers.next) is not None and due <= deadline:
            self._now = max(self._now, due)
            self.run_timers()
            self.run_until_idle()
        self._now = max(self._now, deadline)

    def jump(self, moment: float) -> None:
        """Set the clock to `moment` and put the wakeups that are due by then in their mailboxes; deliver nothing."""
        self._now = max(self._now, moment)
        self.run_timers()

    def advance(self, seconds: float) -> None:
        """`run_until` that many seconds from now."""
        self.run_until(self._now + seconds)

    def shuffle(self, actions: Sequence[Callable[[], object]]) -> None:
        """Call the actions in their order with a seeded number of deliveries before each."""
        for action in actions:
            for _ in range(self._random.randrange(6)):
                self.deliver_one()
            action()

    # The hooks of the runtime.

    def _read_clock(self) -> float:
        return self._now

    def _schedule(self) -> None:
        """The test delivers."""

    def _add_reader(self, fd: int, cell: Cell) -> None:
        self.watched[fd] = cell

    def _remove_reader(self, fd: int) -> None:
        del self.watched[fd]

    def _arm_timer(self, deadline: float) -> None:
        """Time moves by `run_until` only."""

    def _send_from_thread(self, function: Callable[..., object], *arguments: Any) -> None:
        raise RuntimeError("a simulation has one thread")
