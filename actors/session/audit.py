"""The audit log: who started what, when, and how it ended. One JSON object a line, in a file of the server's.

AuditActor owns the file; the ConnectionActor of each session tells it. The file is written by a thread, never on the
loop, and opened anew for each batch of lines, so that it may be moved away at any time.

The line of a start is in the file before its process is spawned; where it cannot be, there is no process. What waits is
bounded: when the disk is too slow or full, the newest of the other lines are lost, and a later line says how many.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from actors.base.actor import BaseActor
from actors.base.log_context import session_tag
from actors.base.messages import Address, Audited, AuditStart, OpenAudit, StartAudited
from actors.system.line_queue import WHOLE, LineQueue
from actors.system.pool import Pool
from protocol.errors import ExecServerError, NotAudited
from protocol.process import ProcessStartParams

log = logging.getLogger("exec_server.audit")

WAITING_LIMIT = 8 << 20
"""Bytes that may wait for the disk; further lines are lost, and counted."""
STARTS_SHARE: Final = 0.5
"""The share of them that starts may have: what becomes of these finds room in the rest."""
FAILURES_SHARE: Final = 0.25
"""The share up to which starts are told of that failed, which cost a client nothing."""
CLIENT_BYTES: Final = 256
"""How much of a name that a client gives itself, or a process, is in a line, in bytes of UTF-8."""
CWD_BYTES: Final = 4096
ARGV_BYTES: Final = 1 << 20
"""Bytes of JSON up to which the arguments are shown; beyond, their digest is."""
WARN_S = 60.0
"""Seconds between two warnings that lines are lost."""

_WRITER = Pool(1, "audit", grows=False)


def starting(session_id: str, params: ProcessStartParams, cwd: str, by: tuple[str, str]) -> Audited:
    """A process is about to be spawned."""
    return _asked("starting", session_id, params, cwd, by, now_ms())


def started(
    session_id: str, params: ProcessStartParams, cwd: str, by: tuple[str, str], pid: int, at_ms: int
) -> Audited:
    """A process runs; `by` is the peer of the connection that asked for it, and what its client calls itself."""
    return _asked("started", session_id, params, cwd, by, at_ms, pid=pid)


def failed(
    session_id: str, params: ProcessStartParams, cwd: str, by: tuple[str, str], error: ExecServerError
) -> Audited:
    """A process could not be started, or was not allowed to."""
    kind = (error.data or {}).get("kind")
    return _asked("failed", session_id, params, cwd, by, now_ms(), code=error.code, kind=kind)


def _asked(
    event: Literal["starting", "started", "failed"],
    session_id: str,
    params: ProcessStartParams,
    cwd: str,
    by: tuple[str, str],
    at_ms: int,
    **more: Any,
) -> Audited:
    return Audited(
        at_ms,
        event,
        session_tag(session_id),
        cut(params.process_id),
        cut(by[0]),
        cut(by[1]),
        argv=params.argv,
        cwd=cut(cwd, CWD_BYTES),
        tty=params.tty,
        mode=params.mode or "direct",
        **more,
    )


def ended(
    session_id: str, process_id: str, pid: int | None, exit_code: int | None, signal: str | None, reason: str
) -> Audited:
    """A process is over. `exit_code` None: nobody waited to see it, as at the end of its session."""
    tag = session_tag(session_id)
    return Audited(now_ms(), "ended", tag, cut(process_id), pid=pid, exit_code=exit_code, signal=signal, reason=reason)


def cut(text: str, limit: int = CLIENT_BYTES) -> str:
    """What a client says, up to so many bytes of UTF-8; of a longer text its beginning, its size and its SHA-256."""
    encoded = text.encode(errors="backslashreplace")  # bytes of a path that are no UTF-8
    if len(encoded) <= limit:
        return encoded.decode()
    beginning = encoded[:limit].decode(errors="ignore")
    return f"{beginning}... ({len(encoded)} bytes, SHA-256 {sha256(encoded).hexdigest()})"


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def line_of(entry: Audited, show_argv: bool) -> bytes:
    """The line of an entry. Without `show_argv`, or where it is too long, argv is its digest: the SHA-256 of its JSON,
    without spaces."""
    if entry.argv is not None:
        entry = msgspec.structs.replace(entry, argv=[cut(each, sys.maxsize) for each in entry.argv])
        argv = msgspec.json.encode(entry.argv)
        too_long = len(argv) if len(argv) > ARGV_BYTES else None
        if too_long or not show_argv:
            digest = sha256(argv).hexdigest()
            entry = msgspec.structs.replace(entry, argv=None, argv_sha256=digest, argv_bytes=too_long)
    return msgspec.json.encode(entry) + b"\n"


class AuditActor(BaseActor):
    """Writes the audit log of a server."""

    opens_with = OpenAudit
    begins_group = True  # the time that it takes to write is not the router's

    _show_argv: bool

    def __init__(self) -> None:
        super().__init__()
        self._file: AuditFile | None = None

    def receiveMsg_OpenAudit(self, message: OpenAudit, router: Address) -> None:
        if self._file is None:
            self._file = AuditFile(message.path)
        self._show_argv = message.show_argv

    def receiveMsg_Audited(self, message: Audited, sender: Address) -> None:
        assert self._file is not None
        share = FAILURES_SHARE if message.event == "failed" else WHOLE
        self._file.append(line_of(message, self._show_argv), share)

    def receiveMsg_AuditStart(self, message: AuditStart, session: Address) -> None:
        assert self._file is not None

        def written(done: bool) -> None:
            # In the writer's thread: an actor may send from any thread of the engine.
            error = None if done else NotAudited()
            self.send(session, StartAudited(message.token, message.process_id, error))

        self._file.append_awaited(line_of(message.line, self._show_argv), written, STARTS_SHARE)

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, AuditStart):
            self.send(sender, StartAudited(message.token, message.process_id, NotAudited()))


class AuditFile:
    """Lines on their way to a file, which is readable by its owner alone. `append` never blocks."""

    def __init__(self, path: str) -> None:
        """Raises RuntimeError if the thread that writes cannot be started."""
        self._path = path
        self._warned_at = float("-inf")
        lines = LineQueue(_WRITER, WAITING_LIMIT, self._write)
        self.append = lines.append
        self.append_awaited = lines.append_awaited

    def _write(self, lines: bytes, lost: int) -> int:
        told = msgspec.json.encode({"atMs": now_ms(), "event": "lost", "lines": lost}) + b"\n" if lost else b""
        try:
            append_to(self._path, lines + told)
        except OSError as error:
            if time.monotonic() - self._warned_at >= WARN_S:
                self._warned_at = time.monotonic()
                log.error("lines of the audit log %s are lost: %s", self._path, error.strerror)
            return lines.count(b"\n") + lost
        return 0


def append_to(path: str, data: bytes | bytearray) -> None:
    """Append to a file, made for its owner alone if it is not there. Raises OSError, and then nothing was added."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        before = os.fstat(fd).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):  # what is no regular file keeps what it got
                os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)


def wait_until_written() -> bool:
    """Wait, a bounded time, until every line is in its file; for the end of the server."""
    return _WRITER.finish()
