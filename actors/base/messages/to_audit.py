"""Messages to the AuditActor."""

from __future__ import annotations

from typing import Literal

import msgspec


class OpenAudit(msgspec.Struct, frozen=True, gc=False):
    """Router to AuditActor, first of all and when settings change: the file, and whether argv is shown."""

    path: str
    show_argv: bool


class Audited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """ConnectionActor to AuditActor: a line of the log. `session` is no power over the session."""

    at_ms: int
    event: Literal["starting", "started", "failed", "ended"]
    session: str
    process: str
    peer: str = ""
    client: str = ""
    argv: list[str] | None = None
    argv_sha256: str | None = None
    argv_bytes: int | None = None
    """How long argv is, where it is too long for the log."""
    cwd: str | None = None
    tty: bool | None = None
    mode: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None
    code: int | None = None
    kind: str | None = None


class AuditStart(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to AuditActor: write this line, and say so (StartAudited), before its process is spawned."""

    token: int
    process_id: str
    line: Audited


ToAudit = OpenAudit | Audited | AuditStart
