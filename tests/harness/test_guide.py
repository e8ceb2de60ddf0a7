"""docs/harness.md: its programs run and print what is shown, and what is typed there does what is shown."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client import PATIENCE_S
from tests.support.program import ROOT, Program, program

GUIDE = (ROOT / "docs" / "harness.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL)
TYPED = [block for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL) if "pip install" not in block]


@pytest.fixture(scope="module")
def server() -> object:
    with program() as running:
        yield running


def test_every_program_shows_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") >= 3


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.parametrize("where", ["server", "local"])
async def test_examples(server: Program, number: int, where: str, tmp_path: Path) -> None:
    """Examples are copied before anything is read. They do the same here and on a machine elsewhere."""
    code, shown = EXAMPLES[number]
    example = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code.replace("ws://127.0.0.1:8765", server.url if where == "server" else "local"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        printed, _ = await example.communicate()
    assert example.returncode == 0
    assert re.fullmatch(".*?".join(map(re.escape, shown.split("…"))), printed.decode(), re.DOTALL), printed.decode()


def test_what_is_typed(tmp_path: Path) -> None:
    """The lines after each command are what it prints, on both streams; `…` stands for what differs."""
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "exec-harness"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from harness.cli import main; main()" "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "work").mkdir()
    examples = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(TYPED), re.MULTILINE)
    assert len(examples) >= 5
    done = subprocess.run(
        ["sh", "-c", "".join(f"{command}\necho '<end>'\n" for command, _ in examples)],
        cwd=tmp_path / "work",
        env={
            "PATH": f"{wrapper.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "EXEC_HARNESS_HOME": str(tmp_path / "state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S * 3,  # for all of them together
    )
    for (command, shown), output in zip(examples, done.stdout.split("<end>\n")[:-1], strict=True):
        assert re.fullmatch(".*?".join(map(re.escape, shown.split("…"))), output), f"{command}\n{output}"
