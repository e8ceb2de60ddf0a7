"""docs/guide.md, "The command line": what is typed there does what is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exec_server.cli.commands import environ
from tests.support.client import PATIENCE_S
from tests.support.program import ROOT, Program

SECTION = (ROOT / "docs" / "guide.md").read_text().partition("## The command line\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)


@pytest.mark.timeout(180)
def test_the_examples(server: Program, tmp_path: Path) -> None:
    """The lines after each command are what it prints, on both streams; `…` stands for what differs. One shell runs all
    of them, in a folder of its own.
    """
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "exec-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m exec_server "$@"\n')
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    examples = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), re.MULTILINE)
    assert len(examples) >= 5
    script = "".join(f"{command}\necho '<end>'\n" for command, _ in examples)
    variables = environ(None, PATH=f"{program.parent}:/usr/local/bin:/usr/bin:/bin", XDG_STATE_HOME=str(tmp_path))
    done = subprocess.run(
        ["sh", "-c", script.replace("ws://127.0.0.1:8765", server.url)],
        cwd=tmp_path / "work",
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S * 5,  # for all of them together
    )
    printed = done.stdout.split("<end>\n")[:-1]
    for (command, shown), output in zip(examples, printed, strict=True):
        assert re.fullmatch(".*?".join(map(re.escape, shown.split("…"))), output), f"{command}\n{output}"
