"""What becomes of each recorded trace of upstream's server: data/names.txt has the names of all."""

from __future__ import annotations

import re

ELSEWHERE: dict[str, str] = {
    r"http/(?!basic|hdrenv).*": "HTTP on the port: tests/transport/data/upstream.jsonl",
    r"ws/(frame-size|raw)-.*": "WebSocket frames: tests/transport/data/upstream.jsonl",
    r"http/(basic|hdrenv)|environmentConfig/read": "test_requests.py: data/requests.jsonl",
}
"""Traces that other tests use; the value says which."""

LATER: dict[str, str] = {}
"""Traces that nothing covers, and why."""

SAME: dict[str, str] = {
    r"retention/(start-(31|50|62)|read-62)": "says the same as retention/start-20 and read-31, only later",
    r"retention/start-125": "takes 80 s; test_documented.py does the same with a short retention",
    r"ws/close-before-init": "a connection without a word: tests/transport",
    r"resume-after-(25|31)s": "real times of an older release; test_sessions.py does the same with short ones",
}
"""Traces that say nothing which another one does not."""


def matching(table: dict[str, str], name: str) -> list[str]:
    """The patterns of a table that fit the whole name."""
    return [pattern for pattern in table if re.fullmatch(pattern, name)]
