"""What is counted of a server's work, for whoever watches over it; plain numbers without names of clients or processes.

Each actor counts for itself, and tells the router now and then; a scrape asks the router alone.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import msgspec

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
"""Upper bounds of a histogram's buckets, in seconds; the last bucket has none."""


class Histogram(msgspec.Struct):
    """How many durations fell between which bounds, and their sum in seconds."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """One more duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def add(self, other: Histogram) -> None:
        """All durations of another one."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds


class Counters(msgspec.Struct):
    """What the router knows. Totals since the start of the server, but for the first six, which are of now."""

    sessions: int = 0
    attached_sessions: int = 0
    running_processes: int = 0
    finished_processes: int = 0
    retained_bytes: int = 0
    file_handles: int = 0
    starts: dict[str, int] = msgspec.field(default_factory=lambda: {"pipe": 0, "tty": 0})
    failed_starts: int = 0
    exits: dict[str, int] = msgspec.field(default_factory=dict)
    """By reason."""
    refusals: dict[str, int] = msgspec.field(default_factory=dict)
    """By limit."""
    evicted_bytes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    requests: dict[str, Histogram] = msgspec.field(default_factory=dict)
    """By method."""

    def count(self, table: dict[str, int], key: str) -> None:
        """One more of these."""
        table[key] = table.get(key, 0) + 1

    def add_requests(self, requests: dict[str, Histogram]) -> None:
        """What a bridge has answered since it last told."""
        for method, durations in requests.items():
            if method in self.requests:
                self.requests[method].add(durations)
            else:
                self.requests[method] = durations
