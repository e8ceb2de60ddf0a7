"""Traces of requests for OpenTelemetry, continued from the trace context that a client sends. Needs the extra `otel`.

Where they go the standard variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …).
A span has the method and how it ended; no ids, commands or paths.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from exec_server.version import __version__
from protocol.envelope import Trace

END_S = 2.0
"""How long the last spans have to reach their collector when the server ends, in seconds."""


class OpenTelemetry:
    """As transport.tracing.Tracer. Spans are sent by a thread, in batches; when it cannot keep up they are dropped."""

    def __init__(self) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", "exec-server")
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("exec_server", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, method: str, context: Trace | None) -> Any:
        carrier = {}
        if context is not None:
            members = {"traceparent": context.traceparent, "tracestate": context.tracestate}
            carrier = {name: value for name, value in members.items() if value is not None}
        parent = self._propagator.extract(carrier) if carrier else trace.set_span_in_context(trace.INVALID_SPAN)
        attributes = {"rpc.system": "jsonrpc", "rpc.method": method}
        return self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)

    def end(self, span: Any, error: str | None) -> None:
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Send what is left; at most END_S. Blocks."""
        thread = threading.Thread(target=self._provider.shutdown, name="exec-server-traces", daemon=True)
        thread.start()
        thread.join(END_S)
