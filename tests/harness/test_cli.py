"""`exec-harness`: help that says what there is, without a traceback for whatever is typed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.cli import COMMANDS, run

ALL = (
    *(("plugin", name) for name in ("create", "validate", "list")),
    ("marketplace", "add"),
    *(("history", name) for name in ("show", "search", "trim")),
    ("instructions", "show"),
    ("skills", "list"),
)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Lost: commands that nobody finds."""
    assert run(["--help"]) == 0
    page = capsys.readouterr().out
    assert all(name in page and help.partition(" ")[0] in page for name, (_, help) in COMMANDS.items())
    for words in ALL:
        assert run([*words, "--help"]) == 0
        page = capsys.readouterr().out
        assert "exec-harness " + " ".join(words) in page and "--json" in page
    assert run(["--version"]) == 0


def test_a_reader_that_has_left() -> None:
    """141, as of who is ended by SIGPIPE; `exec-harness … | head` is no fault."""
    read, write = os.pipe()
    os.close(read)
    code = "import sys; from harness.cli import run; sys.exit(run(['history', 'show', '--json']))"
    ran = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (141, "")
