"""The port for whoever watches over a server: health, metrics, and what they do not tell."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import expect_error, session
from tests.support.program import ROOT, Program, command, eventually, program, stdio_program

pytestmark = pytest.mark.anyio

DOCUMENT = (ROOT / "docs" / "operation.md").read_text()


class Watched:
    """A server, and its port for metrics."""

    def __init__(self, server: Program, address: str) -> None:
        self.server = server
        self.address = address

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def scrape(self) -> dict[str, float]:
        """Every sample: `name{label="value"}` -> its value."""
        status, text = self.get("/metrics")
        assert status == 200
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
        return found

    async def shows(self, holds: Callable[[dict[str, float]], bool], what: str) -> dict[str, float]:
        """Wait until a scrape shows it; that scrape."""
        last: dict[str, float] = {}

        def look() -> bool:
            last.clear()
            last.update(self.scrape())
            return holds(last)

        await eventually(look, what)
        return last


@contextmanager
def watched(*flags: str) -> Iterator[Watched]:
    with program("--metrics-listen", "127.0.0.1:0", *flags, stderr=subprocess.PIPE) as server:
        yield Watched(server, announced(server))


def announced(server: Program) -> str:
    """The address that the server has told on stderr."""
    assert server.popen.stderr is not None
    for line in server.popen.stderr:
        found = re.search(rb"metrics on http://([^/]+)/metrics", line)
        if found is not None:
            return found[1].decode()
    raise AssertionError("no port for metrics was told")


async def test_what_is_counted() -> None:
    """Lost: what a server does, to whoever is responsible for it."""
    flags = ("--max-processes", "1", "--retained-output", "1000", "--process-retention", "1000")
    with watched(*flags) as watch:
        async with session(watch.server.url) as client:
            await client.run("one", "/bin/echo", "x" * 5000)
            await client.run("two", "/bin/true", tty=True)
            await expect_error(client.start("three", "/no/such/program"))
            sleeper = await client.start("four", "/bin/sleep", "1000")
            await expect_error(client.start("five", "/bin/true"))
            await sleeper.terminate()
            await sleeper.closed()
            count = 'exec_server_request_duration_seconds_count{method="process/start"}'
            found = await watch.shows(lambda found: found.get(count) == 5, "five starts are timed")
            for name, value in {
                "exec_server_connections": 1,
                'exec_server_sessions{state="attached"}': 1,
                'exec_server_processes{state="running"}': 0,
                'exec_server_processes{state="finished"}': 3,
                'exec_server_starts_total{streams="pipe"}': 3,
                'exec_server_starts_total{streams="tty"}': 1,
                "exec_server_failed_starts_total": 1,
                'exec_server_exits_total{reason="exited"}': 2,
                'exec_server_exits_total{reason="terminated"}': 1,
                'exec_server_refusals_total{limit="max_processes"}': 1,
                'exec_server_limit{limit="max_processes"}': 1,
                "exec_server_evicted_output_bytes_total": 5001,
            }.items():
                assert found[name] == value, name
            assert found["exec_server_sent_bytes_total"] > 5000
            assert 500 < found["exec_server_received_bytes_total"] < 10_000
            assert found["exec_server_retained_output_bytes"] >= 5000, "head and tail"
            assert found['exec_server_handled_messages_total{actor="actors.process.actor.ProcessActor"}'] > 4
            assert found["exec_server_loop_lag_seconds_count"] > 0
            assert 10 < found["exec_server_open_files"] < found['exec_server_limit{limit="open_files"}']
            client.link.abort()
            await watch.shows(lambda found: found['exec_server_sessions{state="detached"}'] == 1, "it is detached")


async def test_the_document_has_every_series() -> None:
    """Lost: what a number means; or a number that is promised."""
    table = DOCUMENT.partition("<!-- series -->")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`(exec_server_\w+)`", table))
    with watched() as watch:
        text = watch.get("/metrics")[1]
        types = dict(re.findall(r"# TYPE (\S+) (\w+)", text))
        assert set(types) == documented


async def test_the_example_of_the_document() -> None:
    """Lost: trust in the document."""
    example = DOCUMENT.partition("<!-- scrape -->\n```\n")[2].partition("```")[0].splitlines()
    with watched() as watch:
        async with session(watch.server.url) as client:
            await client.run("p", "/bin/true")
            await client.start("q", "/bin/sleep", "1000")
            text = watch.get("/metrics")[1].splitlines()
            assert len(example) > 2
            assert [line for line in example if line not in text] == []


async def test_nothing_of_a_client_is_in_the_metrics(tmp_path: Path) -> None:
    """Lost: secrets in ids, commands and paths, to whoever reads the metrics."""
    with watched() as watch:
        async with session(watch.server.url) as client:
            await client.run(
                "SECRETid", "/bin/echo", "SECRETarg", cwd=f"file://{tmp_path}", env={"SECRETenv": "SECRET"}
            )
            await expect_error(client.call("SECRET/method"))
            await watch.shows(lambda found: any("process/start" in name for name in found), "the start is timed")
            text = watch.get("/metrics")[1]
            assert "SECRET" not in text
            assert client.session_id not in text
            assert str(tmp_path) not in text


async def test_health() -> None:
    """Lost: traffic, to a server that is about to end; or a server, killed by its health check while it ends."""
    with watched("--grace", "1000") as watch:
        async with session(watch.server.url) as client:
            await client.start("p", "/bin/sleep", "1000")
            assert [watch.get(path)[0] for path in ("/livez", "/readyz", "/other")] == [200, 200, 404]
            main = Watched(watch.server, watch.server.url.removeprefix("ws://"))
            assert [main.get(path)[0] for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 404]
            watch.server.popen.send_signal(signal.SIGTERM)
            await eventually(lambda: watch.get("/readyz")[0] == 503, "it is not ready any more")
            assert watch.get("/livez") == (200, "")
            assert watch.get("/metrics")[0] == 200
            watch.server.popen.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(watch.server.wait) == 0


async def test_who_gets_no_answer() -> None:
    """Lost: the figures, to web pages; or the port, to a few who hold it open."""
    with watched() as watch:
        assert watch.get("/metrics", Origin="http://evil")[0] == 403
        assert watch.get("/metrics", Host="evil.example")[0] == 403
        assert watch.get("/metrics", method="POST")[0] == 404
        assert watch.get("/readyz", method="POST")[0] == 405
        assert watch.get("/metrics", method="HEAD") == (200, "")
        host, port = watch.address.rsplit(":", 1)
        for garbage in (b"\x16\x03\x01\r\n\r\n", b"x" * 100_000, b"GET /metrics HTTP/1.1\r\n"):
            with socket.create_connection((host, int(port)), 30) as sock:
                try:
                    sock.sendall(garbage)
                    sock.shutdown(socket.SHUT_WR)
                    assert b"200" not in sock.recv(100)
                except ConnectionError:
                    pass
        held = [socket.create_connection((host, int(port)), 30) for _ in range(40)]
        try:
            assert held[-1].recv(1) == b"", "above the bound it is closed at once"
        except ConnectionResetError:
            pass
        finally:
            for each in held:
                each.close()
        await eventually(lambda: answers(watch), "it answers again")


def answers(watch: Watched) -> bool:
    try:
        return watch.get("/livez")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


async def test_metrics_of_a_server_on_stdio() -> None:
    """Lost: any view of servers that have no port."""
    async with stdio_program("--metrics-listen", "127.0.0.1:0", stderr=subprocess.PIPE) as (client, server):
        await client.initialize()
        watch = Watched(server, await asyncio.to_thread(announced, server))
        assert watch.scrape()['exec_server_sessions{state="attached"}'] == 1


def test_what_cannot_be(tmp_path: Path) -> None:
    """Lost: the reason why a server does not start."""
    (tmp_path / "prometheus_client.py").write_text("raise ImportError")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for value, variables, said in (
            ("127.0.0.1:0", {"PYTHONPATH": path}, "exec-server[metrics]"),
            ("nonsense", {}, "'nonsense' is not IP:PORT"),
            (address, {}, f"cannot listen on {address}: Address already in use"),
        ):
            argv = command("--listen", "ws://127.0.0.1:0", "--metrics-listen", value)
            ended = subprocess.run(argv, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, timeout=50)
            assert ended.returncode == 1
            assert said in ended.stderr.decode()
            assert b"Traceback" not in ended.stderr
