"""What a line of the log is about: `extra` of a log call, and the member of its record that formatters look at."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Any, Final

_MEMBER: Final = "about"


def session_tag(session_id: str) -> str:
    """What stands for a session where its id must not: who knows the id owns the session. 16 hex digits of its
    SHA-256."""
    return sha256(session_id.encode()).hexdigest()[:16]


def about(session_id: str | None = None, process_id: str | None = None, **more: Any) -> dict[str, Any]:
    """`extra` of a log call: which session and process it is about, and other facts. None stands for no fact."""
    tag = None if session_id is None else session_tag(session_id)
    facts = {"session": tag, "process": process_id, **more}
    return {_MEMBER: {name: fact for name, fact in facts.items() if fact is not None}}


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """What `about` has put into a record."""
    facts: dict[str, Any] = getattr(record, _MEMBER, {})
    return facts
