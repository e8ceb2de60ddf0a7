"""Command lines within the process of the tests."""

from __future__ import annotations

import pytest

from tests.exec_server.cli.commands import Inside


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Inside:
    return Inside(monkeypatch, capfdbinary)
