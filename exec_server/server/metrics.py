"""The figures of a server in the text format of Prometheus. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from actors.base.counters import BOUNDS, Counters, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Reading:
    """What there is to tell at one moment: the router's figures, the engine's, and those of the server itself."""

    figures: Counters
    connections: int
    outbound_bytes: int
    loop_lag: Histogram
    actors: int
    dead_letters: int
    waiting: Mapping[str, int]
    """Messages in mailboxes, by actor class."""
    deepest_mailbox: int
    handled: Mapping[str, tuple[int, float]]
    """By actor class: messages, and the seconds that their handlers took."""
    open_files: int
    limits: Mapping[str, int]


def text(reading: Reading) -> bytes:
    """All series, one family after the other."""
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(_Once(families(reading)))
    return generate_latest(collectors)


class _Once:
    def __init__(self, found: Iterable[Any]) -> None:
        self._found = list(found)

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> list[Any]:
        return self._found


def families(reading: Reading) -> Iterator[Any]:
    """Every family of docs/operation.md."""
    figures = reading.figures
    attached = figures.attached_sessions
    yield gauge("connections", "Client connections.", reading.connections)
    yield gauges("sessions", "Sessions.", "state", {"attached": attached, "detached": figures.sessions - attached})
    states = {"running": figures.running_processes, "finished": figures.finished_processes}
    yield gauges("processes", "Processes: not exited, or closed and readable.", "state", states)
    yield counters("starts", "Starts that were allowed.", "streams", figures.starts)
    yield counter("failed_starts", "Starts that were allowed, and failed.", figures.failed_starts)
    yield counters("exits", "Processes that have exited.", "reason", figures.exits)
    yield counters("refusals", "What was refused for a limit.", "limit", figures.refusals)
    yield gauges("limit", "The limits in force.", "limit", reading.limits)
    yield counter("received_bytes", "Bytes of messages from clients.", figures.received_bytes)
    yield counter("sent_bytes", "Bytes of messages to clients.", figures.sent_bytes)
    yield gauge("outbound_queue_bytes", "Bytes that wait for clients.", reading.outbound_bytes)
    yield gauge("retained_output_bytes", "Output that is kept.", figures.retained_bytes)
    yield counter("evicted_output_bytes", "Output that had to go to make room.", figures.evicted_bytes)
    yield histograms("request_duration_seconds", "From a request to its answer.", "method", figures.requests)
    yield histograms("loop_lag_seconds", "By how much a timer of 1 s was late.", None, {"": reading.loop_lag})
    yield gauge("actors", "Living actors.", reading.actors)
    yield gauges("mailbox_messages", "Messages that wait for actors.", "actor", reading.waiting)
    yield gauge("mailbox_deepest_messages", "The deepest that a mailbox has been.", reading.deepest_mailbox)
    yield counter("dead_letters", "Messages to actors that are gone.", reading.dead_letters)
    handled = {name: count for name, (count, _) in reading.handled.items()}
    yield counters("handled_messages", "Messages that actors have handled.", "actor", handled)
    seconds = {name: taken for name, (_, taken) in reading.handled.items()}
    yield counters("handler_seconds", "Time that their handlers took.", "actor", seconds)
    yield gauge("file_handles", "Open file handles of clients.", figures.file_handles)
    yield gauge("open_files", "Open descriptors of the server.", reading.open_files)


def gauge(name: str, help: str, value: float) -> Any:
    return GaugeMetricFamily(f"exec_server_{name}", help, value=value)


def gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Any:
    return _labelled(GaugeMetricFamily(f"exec_server_{name}", help, labels=[label]), values)


def counter(name: str, help: str, value: float) -> Any:
    return CounterMetricFamily(f"exec_server_{name}", help, value=value)


def counters(name: str, help: str, label: str, values: Mapping[str, float]) -> Any:
    return _labelled(CounterMetricFamily(f"exec_server_{name}", help, labels=[label]), values)


def _labelled(family: Any, values: Mapping[str, float]) -> Any:
    for value in sorted(values):
        family.add_metric([value], values[value])
    return family


def histograms(name: str, help: str, label: str | None, found: Mapping[str, Histogram]) -> Any:
    family = HistogramMetricFamily(f"exec_server_{name}", help, labels=[] if label is None else [label])
    bounds = [*map(str, BOUNDS), "+Inf"]
    for value in sorted(found):
        buckets = list(zip(bounds, accumulate(found[value].counts), strict=True))
        family.add_metric([] if label is None else [value], buckets=buckets, sum_value=found[value].seconds)
    return family
