"""Thespian's own tests, which come with its wheel, run on the engine and judge it.

They run in pytest processes of their own, with tests/thespian_suite/plugin.py; what is left out, and why, stands
in tests/thespian_suite/left_out.toml. They spend their time in sleeps, so the processes run side by side; the
files that sleep most are in the slow tier.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import thespian.test

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "tests" / "thespian_suite"
SLOW_FILES = ["test_sourceLoading", "test_typeDispatcher", "test_runcommand", "test_threadedActor"]
LONGEST = ["test_deadLettering", "test_actorFailures", "test_wakeup"]

SKIPPED = {
    "test_signal": "its actor's process would be the one that runs the test",
    "testChildSig": "its actor's process would be the one that runs the test",
    "test02_verifyAllOLDSTYLERelativeImportPossibilities": "Python 2",
    "test07_sourceAuthorityExceptions": "Thespian runs it on simpleSystemBase only",
}
"""What Thespian's tests skip by themselves."""


def start(files: list[str], folder: Path) -> subprocess.Popen[str]:
    """A pytest over these files of thespian.test that writes folder/report.xml."""
    folder.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "--assert=plain", f"--junitxml={folder / 'report.xml'}"]
    command += ["-c", str(SUITE / "suite.ini"), f"--rootdir={folder}", "-p", "tests.thespian_suite.plugin"]
    command += ["-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    command += ["--pyargs", *(f"thespian.test.{name}" for name in files)]
    # PYTHONUNBUFFERED: test_runcommand counts on a child that loses what it had not flushed.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHONUNBUFFERED"))}
    environment |= {"PYTHONPATH": str(ROOT), "THESPLOG_FILE": str(folder / "thespian.log")}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run_suite(tmp_path: Path, groups: list[list[str]]) -> dict[str, list[str]]:
    """Run each group of files in a process; the names of its tests by outcome."""
    running = [(start(files, tmp_path / str(n)), tmp_path / str(n)) for n, files in enumerate(groups)]
    outcome: dict[str, list[str]] = {"failure": [], "error": [], "skipped": [], "passed": []}
    for process, folder in running:
        output, _ = process.communicate()
        assert process.returncode == 0, output
        for case in ET.parse(folder / "report.xml").getroot().iter("testcase"):
            kind = next((child.tag for child in case if child.tag in outcome), "passed")
            outcome[kind].append(case.get("name", ""))
    return outcome


def judge(outcome: dict[str, list[str]], passed: int, on_engine: int) -> None:
    """`passed` tests of thespian 4.0.1, which is pinned, have passed, `on_engine` of them on our system base."""
    assert outcome["failure"] == outcome["error"] == []
    assert {name.partition("[")[0] for name in outcome["skipped"]} <= set(SKIPPED)
    assert sum("asyncioBase" in name for name in outcome["passed"]) == on_engine
    assert len(outcome["passed"]) == passed


def other_files() -> list[str]:
    files = {path.stem for path in Path(thespian.test.__file__).parent.glob("test_*.py")}
    return sorted(files - set(SLOW_FILES) - set(LONGEST))


@pytest.mark.timeout(240)
def test_thespians_own_tests_pass(tmp_path):
    """If one fails, an actor that runs on Thespian's bases may not run on ours."""
    others = other_files()
    groups = [LONGEST[:1], LONGEST[1:], others[::2], others[1::2]]
    judge(run_suite(tmp_path, groups), 230, 170)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_thespians_slow_tests_pass(tmp_path):
    """Source loading, commands and threads: as above."""
    judge(run_suite(tmp_path, [[name] for name in SLOW_FILES]), 87, 85)
