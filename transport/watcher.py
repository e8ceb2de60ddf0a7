"""Client that may watch one session and do nothing else: which requests it may make. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from protocol.errors import NotPermitted
from protocol.process import ProcessAttachParams
from protocol.session import InitializeParams

PERMITTED: Final = frozenset(
    (
        "initialize",
        "environment/status",
        "process/attach",
        "process/detach",
        "process/read",
        "process/wait",
        "process/screen",
        "process/snapshot",
    )
)
"""What an observer may ask of what it watches, and what a connection needs besides."""


def as_watcher(observe_id: str, method: str, params: msgspec.Struct) -> msgspec.Struct:
    """The params with which a request of a watcher is carried out. Raises NotPermitted.

    Its own session is new and ends with its connection. No request names another session but the one that it watches,
    and that by its `observeId`.
    """
    if method not in PERMITTED:
        raise NotPermitted(f"{method}: a watcher may only look on")
    if isinstance(params, InitializeParams):
        if isinstance(params.resume_session_id, str):
            raise NotPermitted("initialize: a watcher cannot resume a session")
        return msgspec.structs.replace(params, session_ttl_ms=0)
    if getattr(params, "session_id", None) is not None:
        raise NotPermitted(f"{method}: a watcher may not name a session by its id")
    if isinstance(params, ProcessAttachParams) and params.observe_id != observe_id:
        raise NotPermitted("process/attach: this is not the session that was shared")
    return params
