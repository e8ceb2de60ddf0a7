"""docs/harness.md: its programs run and print what is shown, and what is typed there does what is shown."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from harness.plugins.marketplace import PLACE
from harness.plugins.scaffold import Parts, Policy, create
from tests.support.client import PATIENCE_S
from tests.support.program import ROOT, Program, program

GUIDE = (ROOT / "docs" / "harness.md").read_text()
PROGRAMS = re.findall(r"(<!-- agent -->\n)?```python\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL)
EXAMPLES = [(code, shown) for mark, code, shown in PROGRAMS if not mark]
[AGENT] = [(code, shown) for mark, code, shown in PROGRAMS if mark]
TYPED = [block for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL) if "pip install" not in block]


@pytest.fixture(scope="module")
def server() -> object:
    with program() as running:
        yield running


def test_every_program_shows_what_it_prints() -> None:
    assert len(PROGRAMS) == GUIDE.count("```python") >= 4


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.parametrize("where", ["server", "local"])
async def test_examples(server: Program, number: int, where: str, tmp_path: Path) -> None:
    """Examples are copied before anything is read. They do the same here and on a machine elsewhere."""
    code, shown = EXAMPLES[number]
    printed = await _printed(
        code.replace("ws://127.0.0.1:8765", server.url if where == "server" else "local"), tmp_path
    )
    assert _fits(shown, printed), printed


@pytest.mark.anyio
@pytest.mark.parametrize("where", ["server", "local"])
async def test_the_agent(server: Program, where: str, tmp_path: Path) -> None:
    """A coding agent in 60 lines; one line says where its folder is."""
    code, shown = AGENT
    assert len(code.splitlines()) <= 60 and code.count('WHERE = "local"') == 1
    folder = _workspace(tmp_path)
    url = server.url if where == "server" else "local"
    prompt = "Do the todo of $notes, then $greeter:hello"
    printed = await _printed(code.replace('WHERE = "local"', f'WHERE = "{url}"'), tmp_path, str(folder), prompt)
    assert _fits(shown, printed), printed


def _workspace(home: Path) -> Path:
    """What the agent needs: a project, and in the home a plugin and instructions."""
    folder = home / "project"
    texts = {
        folder / "AGENTS.md": "Run make test.\n",
        folder / "todo.txt": "milk\n",
        folder / "logo.svg": "<svg/>",
        folder / ".git": "",
        folder / ".agents/skills/notes/SKILL.md": "---\ndescription: Keep notes.\n---\nWrite to notes.txt.\n",
        home / ".agent/AGENTS.md": "Be brief.\n",
        home / "plugins/greeter/skills/hello/SKILL.md": "---\ndescription: Say hello.\n---\nHello!\n",
    }
    create("greeter", Parts(skills=True), folder=home / "plugins", marketplace=Policy(file=home / PLACE))
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    Image.new("L", (8, 8)).save(folder / "logo.png")
    return folder


async def _printed(code: str, home: Path, *arguments: str) -> str:
    example = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *arguments),
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        printed, _ = await example.communicate()
    assert example.returncode == 0
    return printed.decode()


def _fits(shown: str, printed: str) -> bool:
    return re.fullmatch(".*?".join(map(re.escape, shown.split("…"))), printed, re.DOTALL) is not None


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
        assert _fits(shown, output), f"{command}\n{output}"
