"""Fairness of the engine's turns, hunted for a counterexample under a clock that only handlers move.

Groups of actors that never run out of mail get equal time, however many actors they have and however long their
handlers take; descriptors are not shut out by mail, nor those of one group by another's; and while mail comes to an
end within a turn, no descriptor goes before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import ActorAddress, ActorTypeDispatcher, ThespianWatch

from actors.engine.cell import Cell
from actors.engine.runtime import Runtime
from actors.engine.turns import TURN_SECONDS, VISIT_SECONDS
from tests.support.examples import examples

ROUNDING = 1e-9


class Bench(Runtime):
    """An engine whose clock stands still but for `spend`; descriptors are played."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watched: dict[int, Cell] = {}
        self.spent: Counter[Any] = Counter()
        super().__init__({}, ActorAddress("/ActorSys"), lambda: self.now)

    def spend(self, group: Any, seconds: float) -> None:
        self.now += seconds
        self.spent[group] += seconds

    def group(self, actors: int) -> list[ActorAddress]:
        """That many actors of one group."""
        first = self.create_primary(Worker)
        made: list[ActorAddress] = [first]
        self.post(first, lambda worker: made.extend(worker.createActor(Worker) for _ in range(actors - 1)))
        self.turns.run()
        return made

    def _schedule(self) -> None:
        pass

    def _add_reader(self, fd: int, cell: Cell) -> None:
        self.watched[fd] = cell

    def _remove_reader(self, fd: int) -> None:
        del self.watched[fd]


class Worker(ActorTypeDispatcher):
    """Calls each function it is sent with itself, and `on_watch` with the descriptor that is ready."""

    on_watch: Callable[[int], None]
    fds: tuple[int, ...] = ()

    def receiveMsg_function(self, function: Callable[[Worker], None], sender: Any) -> ThespianWatch:
        function(self)
        return ThespianWatch(list(self.fds))

    def receiveMsg_WatchMessage(self, message: Any, sender: Any) -> ThespianWatch:
        for fd in message.ready:
            self.on_watch(fd)
        return ThespianWatch(list(self.fds))


def spin(bench: Bench, address: ActorAddress, group: Any, seconds: float) -> None:
    """Let an actor write to itself for ever, each message taking `seconds`."""

    def work(worker: Worker) -> None:
        bench.spend(group, seconds)
        worker.send(worker.myAddress, work)

    bench.post(address, work)


def crowded(bench: Bench, crowd: list[tuple[int, float]]) -> None:
    """Groups of so many actors, all of which spin with messages that take so many seconds."""
    groups = [bench.group(actors) for actors, _ in crowd]
    for number, (addresses, (_, seconds)) in enumerate(zip(groups, crowd, strict=True)):
        for address in addresses:
            spin(bench, address, number, seconds)


def watch(bench: Bench, address: ActorAddress, fd: int, told: Callable[[int], None]) -> None:
    def begin(worker: Worker) -> None:
        worker.fds = (fd,)
        worker.on_watch = told

    bench.post(address, begin)
    while bench.turns.has_work:
        bench.turns.run()


durations = st.floats(1e-5, TURN_SECONDS)
crowds = st.lists(st.tuples(st.integers(1, 6), durations), min_size=2, max_size=5)


@given(crowds)
@examples(60)
def test_groups_with_mail_get_equal_time(crowd: list[tuple[int, float]]) -> None:
    """Lost: the server, to whoever opens a session with a thousand processes or sends requests that take long."""
    bench = Bench()
    crowded(bench, crowd)
    longest = max(seconds for _, seconds in crowd)
    while bench.now < 20 * longest + 40 * VISIT_SECONDS:
        bench.turns.run()
        spent = [bench.spent[number] for number in range(len(crowd))]
        assert max(spent) - min(spent) <= 2 * VISIT_SECONDS + longest + ROUNDING


@given(crowds, st.lists(st.tuples(st.integers(1, 4), durations), min_size=1, max_size=4))
@examples(60)
def test_mail_without_end_does_not_shut_out_descriptors(
    crowd: list[tuple[int, float]], watching: list[tuple[int, float]]
) -> None:
    """Lost: everybody's output, while one client sends requests without end or has a thousand processes that print."""
    bench = Bench()
    mail_seconds = [0.0]  # at each telling
    passed: dict[int, Counter[int]] = {}  # for each group that waits, how often others were told meanwhile
    most_passed = [0]

    for number, (actors, seconds) in enumerate(watching):
        for index, address in enumerate(bench.group(actors)):

            def told(fd: int, number: int = number, seconds: float = seconds) -> None:
                bench.spend("descriptors", seconds)
                mail_seconds.append(bench.now - bench.spent["descriptors"])
                most_passed.append(max(passed[number].values(), default=0))
                for others in passed.values():
                    others[number] += 1
                passed[number] = Counter()

            watch(bench, address, number * 10 + index, told)
    crowded(bench, crowd)

    passed.update((number, Counter()) for number in range(len(watching)))
    for _ in range(60):
        for fd, cell in bench.watched.items():
            if not cell.group.watches:
                passed[fd // 10] = Counter()
            bench.watches.fd_ready(cell, fd)
        bench.turns.run()
    longest = max(seconds for _, seconds in crowd)
    gaps = [after - before for before, after in pairwise(mail_seconds)]
    assert len(gaps) >= 20
    assert max(gaps) <= TURN_SECONDS + VISIT_SECONDS + longest + ROUNDING
    assert max(most_passed) <= 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=12),
    st.floats(1e-6, TURN_SECONDS / 10),
)
@examples(60)
def test_mail_that_ends_goes_before_descriptors(watchers: list[tuple[int, int]], seconds: float) -> None:
    """Lost: the bound on what waits for a client that does not read, were its other children read before the word
    to stop has reached them."""
    bench = Bench()
    left = [0]
    rivals: list[int] = []
    groups = {number: bench.group(len(watchers)) for number in range(4)}
    for index, (number, hops) in enumerate(watchers):
        address, others = groups[number][index], groups[(number + 1) % 4]

        def relay(hops: int, others: list[ActorAddress] = others) -> Callable[[Worker], None]:
            def pass_on(worker: Worker) -> None:
                bench.spend("mail", seconds)
                left[0] -= 1
                if hops:
                    left[0] += 1
                    worker.send(others[hops % len(others)], relay(hops - 1))

            return pass_on

        def ready(fd: int, address: ActorAddress = address, hops: int = hops) -> None:
            rivals.append(left[0])
            left[0] += 1
            bench.post(address, relay(hops))

        watch(bench, address, index, ready)
    for _ in range(3):
        for fd, cell in bench.watched.items():
            bench.watches.fd_ready(cell, fd)
        while bench.turns.has_work:
            bench.turns.run()
    assert len(rivals) == 3 * len(watchers)
    assert not any(rivals)
