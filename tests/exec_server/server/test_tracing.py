"""Traces: a request continues the trace of its client, and reaches a collector."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.client import PATIENCE_S, Client, expect_error, session
from tests.support.program import ROOT, command, program

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector:
    """A collector for OTLP over HTTP; each span is put into `spans`."""

    def __init__(self) -> None:
        self.spans: queue.Queue[Any] = queue.Queue()
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            spans.put(span)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    async def span(self, name: str) -> Any:
        """The next span of this name; others are thrown away."""
        while True:
            span = await asyncio.to_thread(self.spans.get, timeout=PATIENCE_S)
            if span.name == name:
                return span


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join()
        found.server.server_close()


def attributes(span: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


async def traced(client: Client, request_id: int, method: str, **params: Any) -> None:
    """Send a request within a trace; its answer counts for nothing here."""
    trace = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b"}
    message = {"id": request_id, "method": method, "params": params, "trace": trace}
    client._answers[request_id] = asyncio.get_running_loop().create_future()
    await client.link.send(client.encoding.encode(message))


async def test_a_request_continues_the_trace_of_its_client() -> None:
    """Lost: what a slow step of an agent was waiting for."""
    with collector() as found, program("--otel", env=found.environment) as server:
        async with session(server.url) as client:
            await traced(client, 1000, "process/list")
            span = await found.span("process/list")
            assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
            assert span.trace_state == "a=b"
            assert attributes(span) == {"rpc.system": "jsonrpc", "rpc.method": "process/list"}
            assert span.end_time_unix_nano >= span.start_time_unix_nano
            await expect_error(client.start("SECRETid", "/no/such/SECRETprogram"))
            failed = await found.span("process/start")
            assert attributes(failed)["error.type"] == "spawnNotFound"
            assert not failed.parent_span_id and failed.trace_id.hex() != TRACE
            assert "SECRET" not in str(failed)
            await client.start("p", "/bin/sleep", "1000")
            await traced(client, 1001, "process/wait", processId="p")
            await client.call("process/list")
            client.link.abort()
            assert attributes(await found.span("process/wait"))["error.type"] == "connectionClosed"


async def test_a_collector_that_is_not_there() -> None:
    """Lost: the server, or its end, to a collector that is down."""
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with program("--otel", env=environment, stderr=subprocess.DEVNULL) as server:
        async with session(server.url) as client:
            assert (await client.run("p", "/bin/echo", "hi")).stdout == b"hi\n"


def test_without_the_extra(tmp_path: Path) -> None:
    """Lost: the reason why a server does not start."""
    (tmp_path / "opentelemetry.py").write_text("raise ImportError")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    argv = command("--listen", "ws://127.0.0.1:0", "--otel")
    ended = subprocess.run(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=50)
    assert (ended.returncode, b"exec-server[otel]" in ended.stderr) == (1, True)
