"""A server that was large for a moment does not stay so."""

from __future__ import annotations

import subprocess
import sys

from exec_server.server.malloc_trim import AGAIN_S, AT_LEAST_S, BETWEEN_COLLECTIONS_S, GROWN, IdleCollections, Memory
from tests.support.program import ROOT

MIB = 1 << 20


def trims(*looks: tuple[float, int]) -> list[float]:
    """When a process was trimmed that had these bytes at these times."""
    done: list[float] = []
    now = 0.0
    memory = Memory(lambda: done.append(now))
    for now, size in looks:
        memory.look(size, now)
    return done


def test_a_process_that_has_grown_is_trimmed_but_not_all_the_time() -> None:
    large = 30 * MIB + GROWN + 1
    assert trims((0, 30 * MIB), (AT_LEAST_S, 30 * MIB + GROWN)) == []
    assert trims((0, 30 * MIB), (AT_LEAST_S - 1, large), (AT_LEAST_S, large), (AT_LEAST_S + 1, 2 * large)) == [
        AT_LEAST_S
    ]


def test_one_that_stays_large_is_looked_at_again() -> None:
    """What was in use at the trim may be free a minute later, and nothing grows then."""
    large = 90 * MIB
    looks = [(0.0, 30 * MIB), (10.0, large), (20.0, large), (10.0 + AGAIN_S, large), (11.0 + AGAIN_S, 31 * MIB)]
    assert trims(*looks, (200.0, 31 * MIB)) == [10.0, 10.0 + AGAIN_S]


def test_what_a_collection_freed_goes_back_soon() -> None:
    """Lost: a minute in which an idle server is as large as under load."""
    done: list[float] = []
    memory = Memory(lambda: done.append(now))
    for now, size, freed in [
        (0.0, 30, False),
        (10.0, 90, False),
        (12.0, 80, True),
        (20.0, 80, False),
        (30.0, 80, False),
    ]:
        memory.look(size * MIB, now, freed)
    assert done == [10.0, 20.0]


class Work:
    """A process whose CPU time and objects a test knows."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0
        self.made = self.collected = 0
        self.collections = IdleCollections(self._collect, lambda: self.made)

    def _collect(self) -> None:
        self.collected += 1

    def goes_on(self, cpu: float, made: int, seconds: float = 1.0) -> bool:
        self.now, self.cpu, self.made = self.now + seconds, self.cpu + cpu, self.made + made
        return self.collections.look(self.cpu, self.now)


def test_garbage_is_collected_once_nobody_works() -> None:
    """Lost: for as long as a server is idle, all that its last clients have left; or time of the clients it has."""
    work = Work()
    busy = [work.goes_on(cpu=0.2, made=50) for _ in range(20)]
    idle = [work.goes_on(cpu=0.01, made=0) for _ in range(20)]
    assert (any(busy), idle, work.collected) == (False, [True] + [False] * 19, 1)
    seldom = [work.goes_on(cpu=0.01, made=1) for _ in range(20)]
    assert seldom.count(True) == 20 // BETWEEN_COLLECTIONS_S


def test_what_was_freed_between_what_is_used_goes_back() -> None:
    """Lost: the memory of the machine, to a server that is idle."""
    code = (
        "from exec_server.server.malloc_trim import give_back, resident\n"
        "pieces = [bytes(60_000) for _ in range(1000)]\n"
        "del pieces[1:-1:2], pieces[:-1]\n"  # the last one keeps the end of the heap
        "before = resident()\n"
        "give_back()\n"
        "print(before - resident())\n"
    )
    freed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert int(freed.stdout) > 30 * MIB
