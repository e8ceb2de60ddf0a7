"""Which generation a connection's client is of, and what follows (docs/wire-spec.md, "Generations")."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from msgspec import UNSET

from protocol.dialect import Dialect
from protocol.errors import ExecServerError
from protocol.process import ProcessReadParams, ProcessStartParams, ProcessWriteResult, WriteStatus
from protocol.session import InitializeParams


def start(cwd: str) -> ProcessStartParams:
    return ProcessStartParams("p", ["true"], cwd, {}, False)


def seed_era() -> Dialect:
    dialect = Dialect()
    dialect.initialize(InitializeParams("c"))
    dialect.translate(start("/tmp"))
    return dialect


@pytest.mark.parametrize(
    ("subprotocol", "resume", "cwd"),
    list(itertools.product([None, "exec-server.msgpack"], [UNSET, None, "s"], ["/tmp", "file:///tmp", "tmp"])),
)
def test_seed_era_needs_all_three_signs(subprotocol: str | None, resume: object, cwd: str) -> None:
    """A client would get the other generation's errors, or lose its session with a cut."""
    dialect = Dialect(subprotocol)
    dialect.initialize(InitializeParams("c", resume))  # type: ignore[arg-type]
    assert not dialect.seed_era
    dialect.translate(start(cwd))
    assert dialect.seed_era == (subprotocol is None and resume is UNSET and cwd == "/tmp")


def test_the_first_start_decides_for_good() -> None:
    """The rules of a connection would change under its client."""
    dialect = seed_era()
    dialect.translate(start("file:///tmp"))
    assert dialect.seed_era
    dialect = Dialect()
    dialect.initialize(InitializeParams("c"))
    dialect.translate(start("file:///tmp"))
    dialect.translate(start("/tmp"))
    assert not dialect.seed_era


def test_what_follows() -> None:
    """Unknown methods, finished reads and cut connections differ by generation."""
    for dialect, code, text, seed in (
        (seed_era(), -32600, "unknown method: m", True),
        (Dialect(), -32601, "exec-server stub does not implement `m` yet", False),
    ):
        error = dialect.unknown_method("m")
        assert (error.code, error.message) == (code, text)
        read = dialect.translate(ProcessReadParams("p", 3, 4, 5, "s"))
        assert isinstance(read, ProcessReadParams)
        assert (read.returns_at_exit, dialect.session_ends_with_connection) == (seed, seed)
        assert msgspec.structs.astuple(read) == ("p", 3, 4, 5, "s")


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ("unknownProcess", -32600, "unknown process id p"),
        ("stdinClosed", -32600, "stdin is closed for process p"),
        ("starting", -32600, "process id p is starting"),
    ],
)
def test_the_seed_gets_errors_for_refused_writes(status: WriteStatus, code: int, text: str) -> None:
    """A seed-era client knows no statuses and would think its input arrived."""
    refused = ProcessWriteResult(status)
    with pytest.raises(ExecServerError) as raised:
        seed_era().write_answer(refused, "p")
    assert (raised.value.code, raised.value.message) == (code, text)
    assert Dialect().write_answer(refused, "p") is refused
    accepted = ProcessWriteResult("accepted", True)
    assert seed_era().write_answer(accepted, "p") is accepted
