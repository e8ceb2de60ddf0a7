"""Observer of one connection: what it carried, how long its requests took, and their traces."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

import msgspec

from actors.base.counters import Histogram
from actors.base.deadlines import Deadlines
from actors.base.messages import TrafficReport
from protocol.envelope import Trace
from transport.tracing import Tracer

REPORT_S = 2.0
"""How long after something was carried it is reported, where it is counted, in seconds."""


class Observed(msgspec.Struct, frozen=True, gc=False):
    """One request that is under way: when it came, by `time.monotonic`, and what the tracer made of it."""

    method: str
    since: float
    span: Any


class Observer(Protocol):
    """Told of everything that a bridge takes and sends. No call blocks."""

    def received(self, size: int) -> None:
        """A message of so many bytes was taken."""

    def sent(self, size: int) -> None:
        """So many bytes were given to the transport."""

    def begin(self, method: str, trace: Trace | None) -> Observed | None:
        """A request has come, within this trace of its client; what is returned is given to `end`."""

    def end(self, request: Observed | None, error: str | None) -> None:
        """It is answered; `error` None: with a result, else what was wrong, by `data.kind` or code."""

    def abandon(self, request: Observed | None) -> None:
        """It will not be answered: its connection is gone."""

    def report(self) -> None:
        """Tell what was carried since the last report, where it is counted."""


class NoObserver:
    """Observer of a server that neither measures nor traces."""

    def received(self, size: int) -> None:
        pass

    def sent(self, size: int) -> None:
        pass

    def begin(self, method: str, trace: Trace | None) -> Observed | None:
        return None

    def end(self, request: Observed | None, error: str | None) -> None:
        pass

    def abandon(self, request: Observed | None) -> None:
        pass

    def report(self) -> None:
        pass


class TrafficObserver:
    """Counts, and tells the `tracer`, if any. `tell` is called with what was carried, REPORT_S after some was."""

    def __init__(self, tracer: Tracer | None, deadlines: Deadlines, tell: Callable[[TrafficReport], object]) -> None:
        self._tracer = tracer
        self._deadlines = deadlines
        self._tell = tell
        self._received = 0
        self._sent = 0
        self._durations: dict[str, Histogram] = {}

    def received(self, size: int) -> None:
        if not self._received and not self._sent:
            self._deadlines.set("report", REPORT_S, self.report)
        self._received += size

    def sent(self, size: int) -> None:
        if not self._received and not self._sent:
            self._deadlines.set("report", REPORT_S, self.report)
        self._sent += size

    def begin(self, method: str, trace: Trace | None) -> Observed | None:
        span = None if self._tracer is None else self._tracer.begin(method, trace)
        return Observed(method, monotonic(), span)

    def end(self, request: Observed | None, error: str | None) -> None:
        if request is None:
            return
        durations = self._durations.get(request.method)
        if durations is None:
            durations = self._durations[request.method] = Histogram()
        durations.observe(monotonic() - request.since)
        self._end_span(request, error)

    def abandon(self, request: Observed | None) -> None:
        if request is not None:
            self._end_span(request, "connectionClosed")

    def report(self) -> None:
        self._tell(TrafficReport(self._received, self._sent, self._durations))
        self._received = self._sent = 0
        self._durations = {}

    def _end_span(self, request: Observed, error: str | None) -> None:
        if self._tracer is not None and request.span is not None:
            self._tracer.end(request.span, error)


def observer_of(
    measure: bool, tracer: Tracer | None, deadlines: Deadlines, tell: Callable[[TrafficReport], object]
) -> Observer:
    """The observer of a connection to a server that measures or not, and traces or not."""
    return TrafficObserver(tracer, deadlines, tell) if measure or tracer is not None else NoObserver()
