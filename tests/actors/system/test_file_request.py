"""A file helper that does not do its work."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actors.system import file_request
from actors.system.child.table import CHILDREN
from protocol.errors import InternalError
from protocol.filesystem import GetMetadataParams
from protocol.sandbox import Sandbox
from tests.support.managed import managed


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_request, "ENDED_AFTER_S", 1.0)


def asked_with(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> InternalError:
    """What a request ends in if the helper is this script."""
    script = folder / "helper"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(file_request, "interpreter", lambda: str(script))
    params = GetMetadataParams(str(folder), msgspec.convert(managed(folder), Sandbox))
    with pytest.raises(InternalError) as failure:
        file_request.carry_out_inside(params)
    assert len(CHILDREN) == 0
    return failure.value


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a thread of the few there are for files, for as long as a file system inside hangs."""
    error = asked_with("exec sleep 1000", tmp_path, monkeypatch)
    assert error.data == {"kind": "timedOut"}
    assert error.message == "fs/getMetadata: the file helper was ended after 1 s"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("cat >&2; exit 1", '{"method":"fs/getMetadata"'),
        ("echo no memory >&2; echo '{'", "no memory"),
        ("exit 3", "it has printed no answer"),
    ],
    ids=["an echo", "half an answer", "nothing"],
)
def test_what_one_says_instead_of_an_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    """Lost: why it failed."""
    error = asked_with(program, tmp_path, monkeypatch)
    assert error.data == {"kind": "other"}
    assert error.message.startswith(f"fs/getMetadata: the file helper failed: {said}")
