"""What Thespian promises to actors, as a state machine for Hypothesis that runs on any system base.

A world is a system with actors in it; the machine does things to it and keeps a model of what must come of them.
The promises: messages of one actor to another arrive once and in order; a child that ends, is ended while it is
made, or cannot be made is told to its parent; wakeups come, each once, with their payload; a watch lasts while
handlers return it and is gone after a handler that fails; the sender of what cannot be handled gets it back as
PoisonMessage; and what is sent to the dead goes to the handler of dead letters.
"""

from __future__ import annotations

import itertools
import os
import random
import select
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ActorSystem,
    ActorTypeDispatcher,
    PoisonMessage,
    ThespianWatch,
)

from actors.engine import install
from tests.support.simulation import Simulation

PATIENCE = 15.0
"""Seconds within which a promise must have come true; no test waits that long unless it fails."""


class Message:
    """Base of the messages; its attributes are its arguments."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class SendNumbers(Message):
    """Send `count` Numbers to `target`, from `first` on."""


class Number(Message):
    """The `n`-th message of `pair`."""


class MakeChild(Message):
    """Make a child; answer with its address."""


class MakeAndEnd(Message):
    """Make a child and tell it to exit, in one handler."""


class MakeFailing(Message):
    """Make a child whose constructor raises."""


class Wake(Message):
    """Ask for a wakeup after each of `delays` with `payload` and its index."""


class Pour(Message):
    """Write `count` bytes into the actor's own pipe, which it watches."""


class FailWhileWatching(Message):
    """Write a byte into the pipe and raise, both times."""


class Report(Message):
    """Answer with what has happened so far."""


class CannotBeMade(ActorTypeDispatcher):
    def __init__(self) -> None:
        raise ValueError("no such actor")


class DeadLetters(ActorTypeDispatcher):
    """Keeps the dead Numbers."""

    def __init__(self) -> None:
        self.numbers: list[tuple[Any, int]] = []

    def receiveMsg_str(self, message: str, sender: ActorAddress) -> None:
        self.handleDeadLetters()
        self.send(sender, "handling")

    def receiveMsg_DeadEnvelope(self, envelope: Any, sender: ActorAddress) -> None:
        if isinstance(envelope.deadMessage, Number):
            self.numbers.append((envelope.deadMessage.pair, envelope.deadMessage.n))

    def receiveMsg_Report(self, message: Report, sender: ActorAddress) -> None:
        self.send(sender, self.numbers)


class Subject(ActorTypeDispatcher):
    """Does as told, keeps what it sees, and returns its watch from every handler.

    Once it has failed it returns none until the next Report, for a stray message would put the watch back.
    """

    def __init__(self) -> None:
        self.numbers: list[tuple[Any, int]] = []
        self.exits: list[ActorAddress] = []
        self.wakeups: list[Any] = []
        self.bytes_read = 0
        self.pipe: tuple[int, int] | None = None
        self.failed = False

    def receiveMessage(self, message: Any, sender: ActorAddress) -> Any:
        super().receiveMessage(message, sender)
        return ThespianWatch([self.pipe[0]]) if self.pipe and not self.failed else None

    def receiveMsg_SendNumbers(self, message: Any, sender: ActorAddress) -> None:
        for n in range(message.first, message.first + message.count):
            self.send(message.target, Number(pair=message.pair, n=n))

    def receiveMsg_Number(self, message: Any, sender: ActorAddress) -> None:
        self.numbers.append((message.pair, message.n))

    def receiveMsg_MakeChild(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, self.createActor(Subject))

    def receiveMsg_MakeAndEnd(self, message: Any, sender: ActorAddress) -> None:
        child = self.createActor(Subject)
        self.send(child, ActorExitRequest())

    def receiveMsg_MakeFailing(self, message: Any, sender: ActorAddress) -> None:
        self.createActor(CannotBeMade)

    def receiveMsg_Wake(self, message: Any, sender: ActorAddress) -> None:
        for index, delay in enumerate(message.delays):
            self.wakeupAfter(delay, (message.payload, index))

    def receiveMsg_Pour(self, message: Any, sender: ActorAddress) -> None:
        if self.pipe is None:
            self.pipe = os.pipe()
        os.write(self.pipe[1], bytes(message.count))

    def receiveMsg_FailWhileWatching(self, message: Any, sender: ActorAddress) -> None:
        assert self.pipe is not None
        self.failed = True
        os.write(self.pipe[1], b"x")
        raise ValueError("told to fail")

    def receiveMsg_WatchMessage(self, message: Any, sender: ActorAddress) -> None:
        assert self.pipe is not None
        assert list(message.ready) == [self.pipe[0]]
        self.bytes_read += len(os.read(self.pipe[0], 3))

    def receiveMsg_WakeupMessage(self, message: Any, sender: ActorAddress) -> None:
        self.wakeups.append(message.payload)

    def receiveMsg_ChildActorExited(self, message: Any, sender: ActorAddress) -> None:
        self.exits.append(message.childAddress)

    def receiveMsg_ActorExitRequest(self, message: Any, sender: ActorAddress) -> None:
        if self.pipe:
            os.close(self.pipe[0])
            os.close(self.pipe[1])
            self.pipe = None

    def receiveMsg_Report(self, message: Any, sender: ActorAddress) -> None:
        self.failed = False
        children = [child for n, child in enumerate(self.exits) if child not in self.exits[:n]]
        exits = (len(children), len(self.exits))
        self.send(sender, (self.numbers, exits, self.wakeups, self.bytes_read))


class SystemWorld:
    """Actors in a Thespian ActorSystem, in real time."""

    def __init__(self, base: str) -> None:
        capabilities: dict[str, Any] = {}
        if base.startswith("multiproc"):
            from thespian.test import get_free_admin_port

            capabilities["Admin Port"] = get_free_admin_port()
        else:
            install()
        self.system = ActorSystem(
            base, capabilities, logDefs=None if base == "asyncioBase" else {"version": 1}, transientUnique=True
        )
        self.create = self.system.createActor
        self.tell = self.system.tell

    def ask(self, address: ActorAddress, message: Any) -> Any:
        return self.system.ask(address, message, PATIENCE)

    def until(self, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                return False
            self.system.listen(0.002)
        return True

    def close(self) -> None:
        self.system.shutdown()


class SimulatedWorld:
    """Actors in a simulation: virtual time, seeded order."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.create = self.simulation.createActor
        self.tell = self.simulation.tell

    def ask(self, address: ActorAddress, message: Any) -> Any:
        self.play_descriptors()
        return self.simulation.ask(address, message)

    def play_descriptors(self) -> None:
        for fd in select.select(list(self.simulation.watched), [], [], 0)[0]:
            self.simulation.fd_is_ready(fd)

    def until(self, holds: Callable[[], bool]) -> bool:
        for _ in range(3000):
            if holds():
                return True
            self.simulation.advance(0.01)
            self.play_descriptors()
        return False

    def close(self) -> None:
        self.simulation.close()


class Model:
    """What must have happened to one actor."""

    def __init__(self, address: ActorAddress, parent: Model | None) -> None:
        self.address = address
        self.parent = parent
        self.alive = True
        self.sent: Counter[int] = Counter()  # by receiver
        self.received: dict[tuple[int, int], int] = {}
        self.exits = 0
        self.wakeups: list[Any] = []
        self.bytes_written = 0


class Promises(RuleBasedStateMachine):
    """See the module. A subclass makes the world."""

    processes = False
    """Whether actors are processes. Their parent may hear of their end twice, from themselves and by SIGCHLD; and
    addresses, which are port numbers, come again; and under load a message may overtake others of its pair."""

    def make_world(self, seed: int) -> SystemWorld | SimulatedWorld:
        raise NotImplementedError

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = self.make_world(seed)
        self.choose = random.Random(seed)
        self.models: list[Model] = []
        self.dead_numbers: list[tuple[Any, int]] = []
        self.serial = itertools.count()
        self.dead_letters = self.world.create(DeadLetters)
        assert self.world.ask(self.dead_letters, "handle") == "handling"
        self.primary()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.settle()
            finally:
                self.world.close()

    def one(self, data: st.DataObject, alive: bool = True) -> int:
        return data.draw(st.sampled_from([i for i, model in enumerate(self.models) if model.alive == alive]))  # type: ignore[no-any-return]

    # What is done to the actors.

    @precondition(lambda self: len(self.models) < 12)
    @rule()
    def primary(self) -> None:
        self.models.append(Model(self.world.create(Subject), None))

    @precondition(lambda self: len(self.models) < 12)
    @rule(data=st.data())
    def child(self, data: st.DataObject) -> None:
        parent = self.models[self.one(data)]
        self.models.append(Model(self.world.ask(parent.address, MakeChild()), parent))

    @rule(data=st.data(), count=st.integers(1, 40))
    def numbers(self, data: st.DataObject, count: int) -> None:
        sender, receiver = self.one(data), self.one(data)
        self._numbers(sender, receiver, count)
        pair = (sender, receiver)
        self.models[receiver].received[pair] = self.models[sender].sent[receiver]

    @precondition(lambda self: not all(model.alive for model in self.models))
    @rule(data=st.data(), count=st.integers(1, 3))
    def numbers_to_the_dead(self, data: st.DataObject, count: int) -> None:
        sender, receiver = self.one(data), self.one(data, alive=False)
        first = self.models[sender].sent[receiver]
        self._numbers(sender, receiver, count)
        self.dead_numbers += [((sender, receiver), n) for n in range(first, first + count)]

    def _numbers(self, sender: int, receiver: int, count: int) -> None:
        model, target = self.models[sender], self.models[receiver].address
        first = model.sent[receiver]
        self.world.tell(model.address, SendNumbers(target=target, pair=(sender, receiver), first=first, count=count))
        model.sent[receiver] += count

    @rule(data=st.data())
    def exit_during_create(self, data: st.DataObject) -> None:
        model = self.models[self.one(data)]
        self.world.tell(model.address, MakeAndEnd())
        model.exits += 1

    @rule(data=st.data())
    def create_what_cannot_be_made(self, data: st.DataObject) -> None:
        model = self.models[self.one(data)]
        self.world.tell(model.address, MakeFailing())
        model.exits += 1

    @rule(data=st.data(), delays=st.lists(st.sampled_from([0, 0.001, 0.003, 0.01]), min_size=1, max_size=4))
    def wake(self, data: st.DataObject, delays: list[float]) -> None:
        model = self.models[self.one(data)]
        payload = next(self.serial)
        self.world.tell(model.address, Wake(delays=delays, payload=payload))
        model.wakeups += [(payload, index) for index in range(len(delays))]

    @rule(data=st.data(), count=st.integers(1, 20))
    def pour(self, data: st.DataObject, count: int) -> None:
        model = self.models[self.one(data)]
        self.world.tell(model.address, Pour(count=count))
        model.bytes_written += count

    @precondition(lambda self: any(model.alive and model.bytes_written for model in self.models))
    @rule(data=st.data())
    def fail_while_watching(self, data: st.DataObject) -> None:
        watching = [model for model in self.models if model.alive and model.bytes_written]
        model = data.draw(st.sampled_from(watching))
        self.settle()
        answer = self.world.ask(model.address, FailWhileWatching())
        assert isinstance(answer, PoisonMessage)
        assert isinstance(answer.poisonMessage, FailWhileWatching)
        # The two bytes are there, but nothing watches, until the answer to this report has put the watch back.
        assert self.world.ask(model.address, Report())[3] == model.bytes_written
        model.bytes_written += 2

    @precondition(lambda self: sum(model.alive for model in self.models) > 1)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        model = self.models[self.one(data)]
        self.settle()
        family = [model]
        for other in self.models:
            if other.parent in family and other not in family:
                family.append(other)
        if all(other in family for other in self.models if other.alive):
            return
        self.world.tell(model.address, ActorExitRequest())
        for other in family:
            other.alive = False
        if model.parent is not None:
            model.parent.exits += 1
            self.settle()
        self.wait_for_the_end_of(family)

    def wait_for_the_end_of(self, family: list[Model]) -> None:
        """Until what is sent to each of them is a dead letter.

        A process may still take a message while it ends, so there another is sent until one comes back.
        """
        witness = next(i for i, model in enumerate(self.models) if model.alive)
        for receiver in (self.models.index(other) for other in family):
            first = self.models[witness].sent[receiver]
            returned: list[Any] = []

            def came_back(receiver: int = receiver, first: int = first, returned: list[Any] = returned) -> bool:
                if self.processes or self.models[witness].sent[receiver] == first:
                    self._numbers(witness, receiver, 1)
                letters = self.world.ask(self.dead_letters, Report())
                returned[:] = [(p, n) for p, n in letters if p == (witness, receiver) and n >= first]
                return bool(returned)

            assert self.world.until(came_back), "what was sent to an actor told to exit did not come back"
            self.dead_numbers += returned

    # What must come of it.

    @rule()
    def settle(self) -> None:
        for model in self.models:
            if model.alive:
                state: tuple[Any, ...] = ()

                def as_promised(model: Model = model) -> bool:
                    nonlocal state
                    numbers, (children, told), wakeups, bytes_read = self.world.ask(model.address, Report())
                    exits = told
                    if self.processes and children <= model.exits <= told:
                        exits = model.exits
                    by_pair: dict[Any, list[int]] = {}
                    for pair, n in numbers:
                        by_pair.setdefault(tuple(pair), []).append(n)
                    for pair, got in by_pair.items():
                        if not self.processes:
                            assert got == list(range(len(got))), f"order of {pair}: {got}"
                        assert len(got) == len(set(got)), f"twice to {pair}: {got}"
                    state = ({p: len(g) for p, g in by_pair.items()}, exits, sorted(wakeups), bytes_read)
                    return state == self.expected(model)

                assert self.world.until(as_promised), f"{state} is not {self.expected(model)}"
        dead: list[Any] = []

        def letters_arrived() -> bool:
            dead[:] = self.world.ask(self.dead_letters, Report())
            if self.processes:  # one that was ending took the others, or gives them back late
                return not Counter(self.dead_numbers) - Counter(dead)
            return sorted(dead) == sorted(self.dead_numbers)

        assert self.world.until(letters_arrived), f"dead letters {dead} are not {self.dead_numbers}"

    @staticmethod
    def expected(model: Model) -> tuple[Any, ...]:
        return model.received, model.exits, sorted(model.wakeups), model.bytes_written


class OnEngine(Promises):
    """In real time, on a loop of the system's own."""

    def make_world(self, seed: int) -> SystemWorld:
        return SystemWorld("asyncioBase")


class OnProcesses(Promises):
    """A process an actor."""

    processes = True

    def make_world(self, seed: int) -> SystemWorld:
        return SystemWorld("multiprocTCPBase")


class InSimulation(Promises):
    """Under a virtual clock, in the order of a seed."""

    def make_world(self, seed: int) -> SimulatedWorld:
        return SimulatedWorld(seed)


def run(machine: type[Promises], examples: int, steps: int) -> None:
    """Let Hypothesis look for a broken promise, and simplify what it finds unless that would take for ever."""
    shrink = [] if machine is OnProcesses else [Phase.shrink]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate, *shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
