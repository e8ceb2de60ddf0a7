"""Thespian's promises, hunted for a counterexample: on our engine, in the simulation, on Thespian's own processes.

If the engine breaks one, an actor written for Thespian goes wrong on it; if the processes do, we promise too much.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties.engine_promises import InSimulation, OnEngine, run


def test_the_engine_keeps_its_promises():
    run(OnEngine, examples=25, steps=20)


def test_the_simulation_keeps_the_same_promises():
    run(InSimulation, examples=60, steps=25)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_engine_keeps_its_promises_for_long():
    run(OnEngine, examples=60, steps=40)
    run(InSimulation, examples=150, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thespians_processes_keep_them_too(tmp_path):
    """In a fresh process, for Thespian forks, and must not fork a loop or threads."""
    root = Path(__file__).parents[2]
    code = "from tests.properties.engine_promises import OnProcesses, run; run(OnProcesses, 10, 12)"
    environment = os.environ | {"PYTHONPATH": str(root), "THESPLOG_FILE": str(tmp_path / "thespian.log")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
