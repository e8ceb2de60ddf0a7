"""Bad input in every state of a connection.

By hand with more of it: `EXEC_SERVER_BAD_INPUTS=100000 pytest -m slow tests/security/test_bad_input.py -s`; with
`--hypothesis-seed=N` it is that of another run again.
"""

from __future__ import annotations

import asyncio
import io
import os
import select
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.security.attacker import BEFORE_UPGRADE, STDIO, UPGRADED, Attacker, StdioAttacker
from tests.security.grammar import FRAMES, HEADS, MESSAGES, SCRATCH
from tests.security.target import Target, confining, fill_scratch, scratch, table, target
from tests.support.client import PATIENCE_S
from tests.support.examples import number
from tests.support.program import ROOT, command, launched

# A payload may be long, and where one fails it is shown.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

Counters = Callable[[str, list[str]], None]
MANY = int(os.environ.get("EXEC_SERVER_BAD_INPUTS", "10000"))
BATCH = 1000
PAIRS = [
    *((state, kind) for state in BEFORE_UPGRADE for kind in HEADS),
    *((state, kind) for state in UPGRADED for kind in (*FRAMES, *MESSAGES, *["params"] * 4)),
]


Case = tuple[str, str, str, list[bytes]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """State, kind, encoding, payloads: one, or some requests in a row."""
    state, kind = draw(st.sampled_from(PAIRS))
    encoding = "json" if state in BEFORE_UPGRADE else draw(st.sampled_from(["json", "msgpack"]))
    known = {**HEADS, **FRAMES}.get(kind)
    payload = MESSAGES[kind](encoding) if known is None else known
    return state, kind, encoding, draw(st.lists(payload, min_size=1, max_size=5 if kind == "params" else 1))


def chosen(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    )


def bombard(attacked: Target, examples: int) -> None:
    """So many bad inputs, each on a connection of its own."""

    @chosen(examples)
    @given(cases())
    def bombarded(case: Case) -> None:
        state, kind, encoding, payloads = case
        attacked.hits[state, kind] += len(payloads)
        Attacker(attacked.server.url, state, encoding).attack(payloads, kind in MESSAGES)
        complaints = attacked.complaints()
        assert not complaints, complaints

    bombarded()


def test_bad_input_harms_nobody(figures: Counters) -> None:
    """Lost: the server, or a connection that waits for ever, because of what one client has sent."""
    with target() as attacked:
        bombard(attacked, number(300))
        state = asyncio.run(attacked.recovers())
    figures("bad input", [*table(attacked.hits), state])


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_much_bad_input_leaves_nothing(figures: Counters) -> None:
    """Lost: memory, descriptors or children, a little with each."""
    with target() as attacked:
        bombard(attacked, BATCH)
        attacked.settle()
        states = []
        while attacked.hits.total() < MANY:
            fill_scratch()
            bombard(attacked, BATCH)
            states.append(f"{attacked.hits.total():>7}: {asyncio.run(attacked.recovers())}")
    assert set(attacked.hits) == set(PAIRS), f"never tried: {set(PAIRS) - set(attacked.hits)}"
    figures("bad input", [*table(attacked.hits), *states])


def lines_of(fd: int) -> Iterator[bytes]:
    """What a server writes, line by line; each wait is bounded."""
    rest = b""
    while True:
        ready, _, _ = select.select([fd], [], [], PATIENCE_S)
        assert ready, "the server does not answer"
        data = os.read(fd, 1 << 18)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, bytes]:
    """Kind and payload of bad input on stdio."""
    kind = draw(st.sampled_from(sorted(MESSAGES)))
    return kind, draw(MESSAGES[kind]("json"))


class Stdio:
    """A server on stdio in one of the states `STDIO`; another one once it has ended, as some input makes it."""

    def __init__(self, state: str, cleanup: ExitStack) -> None:
        self._state = state
        self._cleanup = cleanup
        self._start()

    def attack(self, payload: bytes) -> None:
        if not self._attacker.attack(payload):
            self.end()
            self._start()

    def end(self) -> None:
        """The end of its input, if it has not ended; it must not complain."""
        self._stdin.close()
        assert self._process.wait(PATIENCE_S) == 0
        assert self._stderr.read() == b""

    def _start(self) -> None:
        argv = [*confining(SCRATCH), *command("--process-retention", "0", "--log-level", "error")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environ = {**os.environ, "TMPDIR": SCRATCH}
        self._process = self._cleanup.enter_context(launched(argv, bufsize=0, env=environ, **pipes))
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None
        self._stdin, self._stderr = stdin, stderr
        self._attacker = StdioAttacker(stdin.write, lines_of(stdout.fileno()))
        if self._state == STDIO[1]:
            self._attacker.initialize()


def bombard_stdio(state: str, examples: int) -> Counter[tuple[str, str]]:
    """So many bad lines."""
    hits: Counter[tuple[str, str]] = Counter()
    with ExitStack() as cleanup:
        cleanup.enter_context(scratch())
        server = Stdio(state, cleanup)

        @chosen(examples)
        @given(lines())
        def bombarded(case: tuple[str, bytes]) -> None:
            kind, payload = case
            hits[state, kind] += 1
            server.attack(payload)

        bombarded()
        server.end()
    return hits


@pytest.mark.parametrize("state", STDIO)
def test_bad_lines_harm_nobody(state: str, figures: Counters) -> None:
    """Lost: a session on stdio, because of one line."""
    figures(state, table(bombard_stdio(state, 60)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("state", STDIO)
def test_many_bad_lines_harm_nobody(state: str, figures: Counters) -> None:
    """Lost: a session on stdio, because of one line among many."""
    figures(state, table(bombard_stdio(state, MANY // 50)))


@pytest.mark.parametrize("payload", [b"\xc1", b"\x93" * 5000, b"\xdf\xff\xff\xff\xff", b"\x82\xa2id", b"\xa1a" * 9])
def test_bad_maps_on_stdio_end_in_an_answer_or_the_end(payload: bytes) -> None:
    """Lost: the end of the server, whose input makes no sense any more."""
    argv = command("--encoding", "msgpack", "--log-level", "error")
    done = subprocess.run(argv, input=payload, capture_output=True, cwd=ROOT, timeout=PATIENCE_S)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    for message in msgpack.Unpacker(io.BytesIO(done.stdout)):
        assert message["id"] == -1 and message["error"]["code"] == -32600
