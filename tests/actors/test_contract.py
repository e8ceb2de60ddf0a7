"""The actors on our engine and on Thespian's own multi-process base: the same scenarios, see `contract.py`."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import socket
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

import actors.base.messages
from actors.base.messages import Address, Call
from actors.base.settings import Settings
from protocol.errors import ActorLost, ExecServerError, ProcessExists, SpawnError
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessReadParams,
    ProcessStartParams,
    ProcessStartResult,
)
from protocol.session import InitializeParams, InitializeResult, ServerInfo
from tests.properties.session_world import ENVIRONMENT
from tests.support.contract import PATIENCE_S, SCENARIOS, play
from tests.support.program import running

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "tests.support.contract"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_our_engine(scenario: str) -> None:
    """Lost: what the scenario is about."""
    play("asyncioBase", scenario)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_thespians_processes(scenario: str, admin_port: str, tmp_path: Path) -> None:
    """Lost: actors that need no more of a system base than Thespian promises, each in a process of its own."""
    command = [sys.executable, "-m", PROGRAM, "multiprocTCPBase", scenario, admin_port]
    environment = {**os.environ, "THESPLOG_FILE": str(tmp_path / "thespian.log")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=3 * PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert running(admin_port) == [], "processes of the actor system are left"


@pytest.fixture
def admin_port() -> Iterator[str]:
    """A free port, and the end of every process that has it as an argument: all of Thespian's do."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    yield port
    for pid in running(port):
        os.kill(pid, signal.SIGKILL)


# -- messages ---------------------------------------------------------------------------------------------------------

START = ProcessStartParams(process_id="p", argv=["x"], cwd="/", env={}, tty=False)
OUTPUT = ProcessOutput(process_id="p", seq=1, stream="stdout", offset=0, chunk=b"\xff")
SAMPLES: dict[Any, list[Any]] = {
    Address: [None],
    Any: [None],
    Call: [Call(1, None, ProcessReadParams(process_id="p"))],
    ExecServerError: [ActorLost("gone"), ProcessExists("p"), SpawnError.from_errno(2, "program")],
    InitializeParams: [InitializeParams("x"), InitializeParams("x", None), InitializeParams("x", "s")],
    InitializeResult: [InitializeResult("s", ENVIRONMENT, "o", ServerInfo("n", "0"))],
    ProcessClosed: [ProcessClosed("p", 1)],
    ProcessExited: [ProcessExited("p", 1, 0)],
    ProcessOutput: [OUTPUT],
    ProcessStartParams: [START],
    ProcessStartResult: [ProcessStartResult("p")],
    Settings: [Settings(environment=ENVIRONMENT)],
    bool: [True],
    float: [1.5],
    int: [1 << 40],
    tuple[str, str]: [("websocket 127.0.0.1:1", "tests")],
    Literal["starting", "started", "failed", "ended"]: ["started"],
    msgspec.Struct: [START, OUTPUT],
    str: ["text"],
    types.NoneType: [None],
}
MESSAGES = [
    each
    for _, each in inspect.getmembers(actors.base.messages, inspect.isclass)
    if issubclass(each, msgspec.Struct)
    and each.__module__.startswith("actors.base.messages.")
    and not issubclass(each, ProcessStartParams)  # params in a message
]


def samples(hint: Any) -> list[Any]:
    """Values for a member of this type."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [value for each in typing.get_args(hint) for value in samples(each)]
    if typing.get_origin(hint) is list:
        return [[], samples(typing.get_args(hint)[0])]
    if hint not in SAMPLES and isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return instances(hint)
    return SAMPLES[hint]


def instances(kind: type[msgspec.Struct]) -> list[Any]:
    """Messages of a class, in which every sample of every member occurs."""
    hints = typing.get_type_hints(kind)
    values = {name: samples(hints[name]) for name in kind.__struct_fields__}
    most = max((len(each) for each in values.values()), default=1)
    return [kind(**{name: each[i % len(each)] for name, each in values.items()}) for i in range(most)]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_is_frozen_and_survives_pickling(kind: type[msgspec.Struct]) -> None:
    """Lost: messages are passed by reference here and pickled elsewhere; one that changes is a state that is shared."""
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    for message in instances(kind):
        again = pickle.loads(pickle.dumps(message))
        assert type(again) is kind
        assert repr(again) == repr(message)
        errors = (getattr(message, "error", None), getattr(again, "error", None))
        if isinstance(errors[0], ExecServerError):
            assert [(each.code, each.message, each.data) for each in errors[:1]] == [
                (each.code, each.message, each.data) for each in errors[1:]
            ]
