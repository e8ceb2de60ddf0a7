"""What upstream's server was asked and answered, asked of ours: a client written for upstream must not notice."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import disk
from tests.conformance.dialogue import Dialogue
from tests.conformance.differences import DIFFERENCES, UNSTEADY
from tests.conformance.encodings import JSON, MSGPACK, Encoding, in_messagepack
from tests.conformance.replay import Replay, nothing
from tests.conformance.traces import Places, load
from tests.conformance.wires import serving

pytestmark = pytest.mark.anyio

SCENARIOS = ("sess/", "burst/", "deadlock/", "server/", "write/blocked", "fs/eacces")
"""Traces of several connections, of other processes or of long times: they have tests of their own."""
TRACES = {name: trace for name, trace in load().items() if not name.startswith(SCENARIOS)}
ENVIRONMENT = {
    "HOME": "@DIR@/home",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "SECRET_TOKEN": "tok",
    "SRVVAR": "fromserver",
    "USER": "root",
}
"""The environment that upstream's server ran in."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The folder and the environment of the recorded server."""
    (tmp_path / "home").mkdir()
    (tmp_path / "proto").mkdir()
    (tmp_path / "p1.py").write_text("not executable\n")
    program = tmp_path / "probebin"
    program.write_text('#!/bin/sh\necho probebin "$PATH"\n')
    program.chmod(0o755)
    disk.build(tmp_path)
    places = Places(tmp_path)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, places.fill(value))
    return places


def patterns(name: str) -> list[tuple[str, str]]:
    """What may differ in a trace: pattern and key."""
    return [(pattern, each.key) for each in DIFFERENCES for pattern in each.at.get(name, ())]


def cases() -> Iterator[Any]:
    """Every trace in JSON, and in MessagePack those that can be said there."""
    for name, trace in TRACES.items():
        yield pytest.param(name, JSON, id=name)
        if all(isinstance(raw, str) and in_messagepack(raw) is not None for raw in trace.send):
            yield pytest.param(name, MSGPACK, id=f"{name}-msgpack")


@pytest.mark.parametrize(("name", "spoken"), list(cases()))
async def test_trace(name: str, spoken: Encoding, places: Places) -> None:
    """Ids, codes, kinds, results, output, exits: as upstream's, but for what is meant to differ."""
    disk.AT_FIRST.get(name, nothing)(places.folder)
    async with serving(spoken) as server, server.websocket() as wire:
        talk = Dialogue(wire)
        found = await Replay(TRACES[name], talk, places).run()
    steady = {what for what in found if not any(fnmatch.fnmatchcase(what, each) for each in UNSTEADY.get(name, ()))}
    meant = patterns(name)
    new = {what for what in steady if not any(fnmatch.fnmatchcase(what, pattern) for pattern, _ in meant)}
    gone = {pattern for pattern, _ in meant if not fnmatch.filter(steady, pattern)}
    if new or gone:
        talk.fail(f"{name}: differs in {sorted(new)}; no longer differs in {sorted(gone)}")
