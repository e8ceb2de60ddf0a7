"""What a terminal showed, as an asciicast v2 file (docs.asciinema.org/manual/asciicast/v2).

The file is written by a thread, never on the loop. What waits to be written is bounded: a disk that is too slow, or
full, ends the recording, which is logged, and leaves the process alone.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

from actors.base.log_context import session_tag
from actors.system import clock
from protocol.errors import SpawnError

log = logging.getLogger("exec_server.recording")

MOST_BYTES = 1 << 30
"""Bytes of one recording; more ends it."""
LEAST_FREE = 64 << 20
"""Bytes that recordings leave free on their disk: whoever prints without end must not fill it for others."""
WAITING_LIMIT = 8 << 20
"""Bytes that may wait for the disk; more ends the recording."""

_OPEN: set[int] = set()
_OPEN_CHANGED = threading.Condition()

Submit = Callable[[Callable[[], object]], None]
"""Runs a job in a thread, some time."""


class Recording:
    """One asciicast file. `open` first, in a thread; the other methods cost microseconds and never block.

    Bytes that are no UTF-8 become U+FFFD, as the format wants text; a character split between two reads stays whole.
    """

    def __init__(self, path: str, header: dict[str, Any], submit: Submit) -> None:
        self._path = path
        self._header = header
        self._submit = submit
        self._lock = threading.Lock()
        self._fd = -1
        self._waiting = bytearray()
        self._writing = False
        self._over = False
        self._began = clock.now()
        self._output = codecs.getincrementaldecoder("utf-8")("replace")
        self._input = codecs.getincrementaldecoder("utf-8")("replace")

    def open(self) -> None:
        """Create the file, readable by its owner alone. Raises SpawnError of kind `recordFailed`."""
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _write_all(self._fd, json.dumps(self._header).encode() + b"\n")
        except OSError as error:
            if self._fd >= 0:
                self._close_file()
                os.unlink(self._path)
            text = f"cannot record to {self._path}: {error.strerror}"
            raise SpawnError("recordFailed", text, "record", path=self._path) from None
        self._began = clock.now()
        with _OPEN_CHANGED:
            _OPEN.add(id(self))

    def output(self, data: bytes) -> None:
        """The terminal showed `data`."""
        self._event("o", self._output.decode(data))

    def input(self, data: bytes) -> None:
        """Somebody typed `data`."""
        self._event("i", self._input.decode(data))

    def resize(self, rows: int, cols: int) -> None:
        """The window has another size."""
        self._event("r", f"{cols}x{rows}")

    def close(self) -> None:
        """Nothing more happens. What waits is written, then the file is closed."""
        self._event("o", self._output.decode(b"", final=True))
        with self._lock:
            self._over = True
            if self._writing:
                return
            self._writing = True
        self._submit(self._write)

    def _event(self, code: str, data: str) -> None:
        if not data:
            return
        line = json.dumps([round(clock.now() - self._began, 6), code, data], ensure_ascii=False)
        with self._lock:
            if self._over:
                return
            self._waiting += line.encode("utf-8", "replace") + b"\n"
            if len(self._waiting) > WAITING_LIMIT:
                self._give_up("the disk is too slow")
            if self._writing:
                return
            self._writing = True
        self._submit(self._write)

    def _give_up(self, reason: str) -> None:
        log.warning("recording %s ends early: %s", self._path, reason)
        self._over = True
        self._waiting.clear()

    def _write(self) -> None:
        """In a thread: write until nothing waits."""
        while True:
            with self._lock:
                data, self._waiting = self._waiting, bytearray()
                if not data:
                    self._writing = False
                    if self._over:
                        self._close_file()
                    return
            try:
                reason = _no_room(self._fd, len(data))
                if reason is None:
                    _write_all(self._fd, data)
            except OSError as error:
                reason = error.strerror or str(error)
            if reason is not None:
                with self._lock:
                    self._give_up(reason)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with _OPEN_CHANGED:
            _OPEN.discard(id(self))
            _OPEN_CHANGED.notify_all()


def wait_until_written(seconds: float) -> bool:
    """Wait until every recording that was closed is written, at most `seconds`; for the end of the server."""
    with _OPEN_CHANGED:
        return _OPEN_CHANGED.wait_for(lambda: not _OPEN, seconds)


def _no_room(fd: int, size: int) -> str | None:
    """Why so many bytes are not to be added to a recording. Raises OSError."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size + size > MOST_BYTES:
        return f"it would have more than {MOST_BYTES} bytes"
    disk = os.fstatvfs(fd)
    if disk.f_bavail * disk.f_frsize < size + LEAST_FREE:
        return f"the disk has less than {LEAST_FREE} bytes left"
    return None


def _write_all(fd: int, data: bytes | bytearray) -> None:
    """Raises OSError, and then the file still ends with a whole line."""
    written = 0
    try:
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
    except OSError:
        torn = written - (data.rfind(b"\n", 0, written) + 1)
        with contextlib.suppress(OSError):
            os.ftruncate(fd, os.fstat(fd).st_size - torn)
        raise


def recording_path(folder: str, session_id: str, process_id: str) -> str:
    """A name of its own in `folder` for each process: when, which session (the beginning of its tag in the logs), which
    process."""
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    shown = re.sub(r"[^A-Za-z0-9._-]+", "_", process_id)[:64] or "process"
    return os.path.join(folder, f"{when}-{session_tag(session_id)[:8]}-{time.monotonic_ns() % 10**9:09d}-{shown}.cast")


def header(argv: list[str], env: dict[str, str], rows: int, cols: int) -> dict[str, Any]:
    """The first line of the file. Of the environment only what a player needs: the rest may hold secrets."""
    return {
        "version": 2,
        "width": cols,
        "height": rows,
        "timestamp": int(time.time()),
        "command": " ".join(argv),
        "env": {name: env[name] for name in ("TERM", "SHELL") if name in env},
    }
