"""The server's log on stderr: lines of text for people, or of JSON for programs.

A session's id is the power over it and is in no log: `session` is the tag that the audit log has, too. Lines are
written by a thread, so that a reader of stderr who stops reading holds up nobody; what then finds no room is lost, and
counted.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from actors.base.log_context import facts_of
from actors.system.line_queue import WHOLE, LineQueue
from actors.system.pool import Pool
from exec_server.printable import printable

WAITING_LIMIT: Final = 1 << 20
"""Bytes that may wait to be written; a single longer line may, too."""

ORDINARY_SHARE: Final = 0.5
"""The share of them for lines below `warning`: what any client can cause at will."""
LONGEST_MESSAGE: Final = 4096
"""Characters of a message; what follows is left out."""
LONGEST_TRACEBACK: Final = 8192
"""Characters of a traceback; what is before the last ones is left out."""
LONGEST_FACT: Final = 256
"""Characters of what a line is about, as of an id that a client has chosen."""

WRITER: Final = Pool(1, "exec-server-log", grows=False)
"""Writes the lines."""


class JsonFormatter(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, what it is about, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line |= _facts(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-LONGEST_TRACEBACK:]
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """A line, and the lines of a traceback. What a client said cannot break a line, nor move the cursor."""

    def format(self, record: logging.LogRecord) -> str:
        about = "".join(f" {name}={value}" for name, value in _facts(record).items())
        text = f"{record.levelname} {record.name}: {_message(record)}{about}"
        line = f"{_time(record)} {printable(text)}"
        if not record.exc_info:
            return line
        traceback = self.formatException(record.exc_info)[-LONGEST_TRACEBACK:]
        return "\n".join([line, *map(printable, traceback.split("\n"))])


def _message(record: logging.LogRecord) -> str:
    return _beginning(record.getMessage(), LONGEST_MESSAGE)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts = facts_of(record)
    return {name: _beginning(each, LONGEST_FACT) if isinstance(each, str) else each for name, each in facts.items()}


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _time(record: logging.LogRecord) -> str:
    """RFC 3339, UTC, in milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class StderrHandler(logging.Handler):
    """Hands lines to the thread that writes them. Never blocks."""

    def __init__(self, fd: int = 2) -> None:
        """Raises RuntimeError if that thread cannot be started."""
        super().__init__()
        self._fd = fd
        self._lines = LineQueue(WRITER, WAITING_LIMIT, self._write)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        self._lines.append(line, WHOLE if record.levelno >= logging.WARNING else ORDINARY_SHARE)

    def _write(self, lines: bytes, lost: int) -> int:
        if lost:
            record = logging.LogRecord("exec_server", logging.ERROR, "", 0, f"{lost} lines were lost", None, None)
            lines += (self.format(record) + "\n").encode()
        view = memoryview(lines)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            pass  # nobody reads stderr any more, and there is nowhere else to say so
        return 0

    def flush(self) -> None:
        """Wait until all is written; a bounded time."""
        WRITER.finish()


def begin(level: str, form: str) -> None:
    """Log to stderr from now on. `form`: `text`, `json`, or `auto`, which is text on a terminal, else JSON.

    Raises RuntimeError if the thread that writes cannot be started: later, a line would fail whoever has something to
    say, and that may be that there are no threads.
    """
    as_text = form == "text" or (form == "auto" and os.isatty(2))
    handler = StderrHandler()
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
