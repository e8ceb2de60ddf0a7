"""A server that was large for a moment does not stay so."""

from __future__ import annotations

import subprocess
import sys

from exec_server.server.malloc_trim import AGAIN_S, AT_LEAST_S, GROWN, Memory
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
