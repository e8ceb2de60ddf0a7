"""The program as its users start it: streams, listen URLs, signals (docs/wire-spec.md, "The program")."""

from __future__ import annotations

import asyncio
import base64
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from exec_server.server.program import serve
from tests.conformance.dialogue import Dialogue
from tests.conformance.helpers import command, death_of, printed
from tests.conformance.replay import Replay
from tests.conformance.traces import Places, load
from tests.conformance.wires import ProgramWire, WebSocketWire, WireClosed, program

pytestmark = pytest.mark.anyio
TRACES = load()


@asynccontextmanager
async def listening(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The program on a free port, and its URL as it tells it."""
    async with program(
        "--listen", "ws://127.0.0.1:0", "--grace", "0", *arguments, stderr=asyncio.subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        assert re.fullmatch(r"ws://127\.0\.0\.1:\d+\n", first), "clients parse the first line of stdout"
        yield process, first.strip()


async def test_a_hangup_ends_nothing() -> None:
    """SIGHUP is for reading the settings again; upstream dies of it (trace server/sig-1)."""
    async with listening() as (process, url), connect(url, compression=None, proxy=None) as connection:
        talk = Dialogue(WebSocketWire(connection))
        await talk.initialize()
        process.send_signal(signal.SIGHUP)
        await talk.result("process/start", **command("p", "/bin/sh", "-c", "echo $$; exec sleep 1000"))
        death = death_of(await printed(talk, "p", 2))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        await death.come()


SIGNALS = [name for name in TRACES if name.startswith("server/sig-") and name != "server/sig-1"]


@pytest.mark.parametrize("name", SIGNALS)
async def test_signals_to_the_server(tmp_path: Path, name: str) -> None:
    """SIGTERM and SIGINT end it with status 0; whatever ends it, no child is left, in another session neither."""
    number = int(name.rpartition("-")[2])
    async with listening() as (process, url), connect(url, compression=None, proxy=None) as connection:
        replay = Replay(TRACES[name], Dialogue(WebSocketWire(connection)), Places(tmp_path))
        replay.trace.closed = False
        assert await replay.run() == set(), replay.talk.written()
        told = [each["params"] for each in replay.talk.received if each.get("method") == "process/output"]
        deaths = [death_of(bytes(chunk_text(params), "ascii")) for params in told]
        assert len(deaths) == 3
        process.send_signal(number)
        orderly = number in (signal.SIGTERM, signal.SIGINT)
        assert await replay.talk.expect_closed() == (1001 if orderly else None)
        assert await process.wait() == (0 if orderly else -number)
        for death in deaths:
            await death.come()
        assert not (tmp_path / "term").exists() or not orderly, "children are killed, not asked"


def chunk_text(params: dict[str, str]) -> str:
    return base64.b64decode(params["chunk"]).decode()


async def test_stderr_tells_where_it_listens() -> None:
    """For people, and for the seed's clients, which look there."""
    async with listening("--concurrent-requests", "4") as (process, url):
        assert process.stderr is not None
        assert (await process.stderr.readline()).decode() == f"exec-server listening on {url}\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert await process.stdout.read() == b"", "stdout holds nothing but the URL"


REFUSED = {
    "ws://localhost:0": "invalid websocket --listen URL `ws://localhost:0`; expected `ws://IP:PORT`",
    "ws://127.0.0.1": "invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`",
    "ws://127.0.0.1:0/": "invalid websocket --listen URL `ws://127.0.0.1:0/`; expected `ws://IP:PORT`",
    "http://127.0.0.1:0": "unsupported --listen URL `http://127.0.0.1:0`; expected `ws://IP:PORT` or `stdio`",
    "ws://0.0.0.0:0": "refused --listen URL `ws://0.0.0.0:0`",
    "ws://[::]:0": "refused --listen URL `ws://[::]:0`",
}


@pytest.mark.parametrize("url", REFUSED)
def test_listen_urls_that_are_refused(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Status 1 and one line on stderr; no port is open to strangers by mistake."""
    assert serve(["--listen", url]) == 1
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"Error: {REFUSED[url]}")
    assert told.err.count("\n") == 1


def test_concurrent_requests_must_be_positive(capfd: pytest.CaptureFixture[str]) -> None:
    """The flag is accepted for old scripts, and still checked."""
    assert serve(["--concurrent-requests", "0"]) == 2
    assert "--concurrent-requests" in capfd.readouterr().err


async def test_a_port_that_is_taken() -> None:
    """Status 1, and the reason on stderr."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        async with program("--listen", url, stderr=asyncio.subprocess.PIPE) as process:
            assert process.stderr is not None
            assert b"Error: cannot listen on " in await process.stderr.read()
            assert await process.wait() == 1


async def test_stdio_is_the_default() -> None:
    """As the seed's: a client starts the program and speaks to it, and has nothing to choose."""
    async with program() as process:
        talk = Dialogue(ProgramWire(process))
        await talk.initialize()
        await talk.is_alive()
        await talk.close()
        assert await talk.expect_closed() == 0


async def test_a_violation_ends_the_stdio_program() -> None:
    """It says what it still has to say, and exits by itself: nobody waits for a program that answers no more."""
    async with program("--listen", "stdio") as process:
        talk = Dialogue(ProgramWire(process))
        await talk.initialize()
        await talk.result("process/start", **command("p", "/bin/sh", "-c", "echo $$; exec sleep 1000"))
        death = death_of(await printed(talk, "p", 2))
        await talk.send('{"id":1,"method":"foo"}\n{bad\n{"method":"nope"}')
        await talk.expect_error(await talk.answer(1), -32601)
        await talk.expect_error(await talk.answer(-1), -32600)
        assert await talk.expect_closed() == 0
        await death.come()


async def test_the_end_of_input_loses_no_answer() -> None:
    """What was read is carried out and answered, waits with what there is; then the program exits with 0."""
    async with program("--listen", "stdio://") as process:
        talk = Dialogue(ProgramWire(process))
        await talk.initialize()
        await talk.result("process/start", **command("p", "sleep", "1000"))
        await talk.send('{"id":"wait","method":"process/read","params":{"processId":"p","waitMs":600000}}')
        for number in range(200):
            await talk.send({"id": number, "method": "process/terminate", "params": {"processId": "nobody"}})
        await talk.close()
        assert await talk.expect_closed() == 0
        await talk.answer("wait")
        for number in range(200):
            await talk.answer(number)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'\xff{"id":1}', id="no UTF-8"),
        pytest.param(b"x" * (64 * 1024 * 1024 + 1), id="over 64 MiB", marks=pytest.mark.slow),
    ],
)
async def test_lines_that_end_the_stdio_program(line: bytes) -> None:
    """Without an answer, as upstream; what was asked before is answered."""
    async with program("--listen", "stdio://") as process:
        talk = Dialogue(ProgramWire(process))
        await talk.initialize()
        await talk.send('{"id":1,"method":"environment/status"}')
        await talk.answer(1)
        wire = ProgramWire(process)
        try:
            await wire.send(line)
        except WireClosed as end:
            assert end.code == 0
        assert await talk.expect_closed() == 0
        assert talk.unexpected() == []
