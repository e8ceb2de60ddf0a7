"""`exec-harness history`: what users see of their prompts (harness-spec 1, 7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import HistoryLog
from harness.cli import run

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What the program prints, with a home of its own."""
    monkeypatch.setenv("EXEC_HARNESS_HOME", str(tmp_path))

    def said(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(("history", *words)) == status
        return capsys.readouterr().out

    return said


async def _append(home: Path, *texts: str) -> None:
    log = HistoryLog(home, clock=lambda: 1_700_000_000)
    for text in texts:
        await log.append("t", text)


def test_an_empty_history(said: Said) -> None:
    assert said("show") == "" and said("show", "--json") == "[]\n"
    assert said("search", "x") == "" and said("trim").startswith("dropped 0 bytes of ")


def test_prompts_are_shown(said: Said, tmp_path: Path) -> None:
    """The newest last, on one line each, without what could move the cursor."""
    asyncio.run(_append(tmp_path, *(f"prompt {number}" for number in range(200)), "two\nlines \x1b[2J"))
    lines = said("show", "-n", "150").splitlines()
    assert len(lines) == 150 and lines[0].endswith("prompt 51")
    assert lines[-1].split(maxsplit=3)[3] == "two lines \\x1b[2J" and lines[-1].split()[0] == "200"
    [found] = json.loads(said("search", "PROMPT 7", "-n", "1", "--json"))
    assert found == {"offset": 79, "sessionId": "t", "ts": 1_700_000_000, "text": "prompt 79"}
    with open(tmp_path / "history.jsonl", "a") as file:
        file.write('{"session_id":"t","ts":999999999999999999,"text":"far"}\nno record\n')
    assert "999999999999999999  far" in said("show", "-n", "2")


def test_the_oldest_are_dropped(said: Said, tmp_path: Path) -> None:
    asyncio.run(_append(tmp_path, *(f"prompt {number}" for number in range(100))))
    before = (tmp_path / "history.jsonl").stat().st_size
    dropped = json.loads(said("trim", "--max-bytes", "1000", "--json"))
    after = (tmp_path / "history.jsonl").stat().st_size
    assert dropped == {"path": str(tmp_path / "history.jsonl"), "droppedBytes": before - after}
    assert after <= 800 and said("show", "-n", "1").rstrip().endswith("prompt 99")
    assert said("trim", "--max-bytes", "0", status=1) == ""
