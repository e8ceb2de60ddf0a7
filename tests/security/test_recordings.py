"""What recordings tell about a session, and how much of a disk they take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from actors.base.log_context import session_tag
from actors.process import recording
from actors.process.recording import Recording, recording_path

SESSION = "0123456789abcdef0123456789abcdef"


def test_a_name_holds_nothing_of_the_session_id() -> None:
    """L9. Lost: part of what keeps others out of a session, to whoever lists the folder."""
    name = os.path.basename(recording_path("/r", SESSION, "p"))
    assert SESSION[:4] not in name.partition("-")[2] and session_tag(SESSION)[:8] in name


def test_a_recording_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """L9. Lost: the disk, to a program that prints for ever."""
    monkeypatch.setattr(recording, "MOST_BYTES", 1000)
    path = tmp_path / "x.cast"
    made = Recording(str(path), {"version": 2}, lambda job: job())
    made.open()
    for _ in range(100):
        made.output(b"x" * 100)
    made.close()
    assert 500 < path.stat().st_size <= 1000 and path.read_bytes().endswith(b"\n")
    assert caplog.text.count("more than 1000 bytes") == 1


def test_room_is_left_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """L9. Lost: the disk, to many programs that print."""
    free: Any = os.statvfs(tmp_path)
    monkeypatch.setattr(recording, "LEAST_FREE", free.f_blocks * free.f_frsize)
    path = tmp_path / "x.cast"
    made = Recording(str(path), {"version": 2}, lambda job: job())
    made.open()
    made.output(b"x")
    made.close()
    assert path.read_bytes() == b'{"version": 2}\n' and "bytes left" in caplog.text
