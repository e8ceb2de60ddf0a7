"""docs/guide.md: its programs run, and print what is shown."""

from __future__ import annotations

import asyncio
import os
import re
import sys

import pytest

from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import ROOT, Program

GUIDE = (ROOT / "docs" / "guide.md").read_text()
EXAMPLES = re.findall(r"(<!-- cut -->\n)?```python\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL)


def test_every_program_shows_what_it_prints() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python") >= 8


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
async def test_examples(server: Program, number: int) -> None:
    """Examples are copied before anything is read."""
    cut, code, shown = EXAMPLES[number]
    budgets = [20_000, 30_000, 40_000] if cut else []
    async with CuttingProxy(server.url, budgets) as proxy:
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code.replace("ws://127.0.0.1:8765", proxy.url),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await program.communicate()
        assert program.returncode == 0
        assert re.fullmatch(".*?".join(map(re.escape, shown.split("…"))), printed.decode())
        assert proxy.cuts == len(budgets)
