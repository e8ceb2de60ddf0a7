"""The two threads: what they have begun is finished before the process ends."""

from __future__ import annotations

import pytest

from tests.actors.system.child.support import output_of

JOB = """
import multiprocessing, os, sys, time
from actors.system.pool import KILL_POOL

def work():
    time.sleep(0.3)  # a kill of hundreds of processes
    os.write(1, b"finished\\n")

def main():
    KILL_POOL.submit(work)
"""


@pytest.mark.parametrize(
    "how",
    ["main()", "p = multiprocessing.get_context('fork').Process(target=main); p.start(); p.join()"],
    ids=["a program", "a process of multiprocessing"],
)
def test_a_kill_that_has_begun_is_finished_before_the_process_ends(how: str) -> None:
    """Lost: the end of what a command left behind, which has been stopped and then stays so for ever."""
    assert output_of(JOB + how) == ["finished"]
