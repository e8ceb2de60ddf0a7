"""Which starts a server takes; pure."""

from __future__ import annotations

from actors.base.settings import Settings
from protocol.errors import LimitReached, ModeNotAllowed
from protocol.process import ProcessStartParams


def check_start(params: ProcessStartParams, running: int, settings: Settings) -> None:
    """Judge a start in a session where so many processes run. Raises ModeNotAllowed, LimitReached."""
    allowed = {"direct": settings.allow_direct_exec, "prepared": settings.allow_prepared_exec}
    mode = params.mode or "direct"
    if not allowed[mode]:
        raise ModeNotAllowed(mode, next(other for other in allowed if other != mode))
    if running >= settings.max_processes_per_session:
        raise LimitReached("max_processes_per_session", settings.max_processes_per_session)
