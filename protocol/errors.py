"""Every error that a client can be answered with: one tree, a code each, `data.kind` where a program may decide on it.

ExecServerError
├── ParseError              -32600, id -1   the message is no JSON-RPC message of ours (docs/protocol.md, "Messages")
├── InvalidRequest          -32600          right shape, wrong moment or unknown name
│   ├── UnknownSession
│   ├── UnknownProcess
│   ├── ProcessExists
│   ├── ModeNotAllowed
│   ├── NotPermitted
│   └── AccessDenied
├── MethodNotFound          -32601
├── InvalidParams           -32602
├── NotFound                -32004          a file or handle that is not there
├── SessionAttached         -32010
└── InternalError           -32603          the machine or the server could not do it
    ├── SpawnError          kind `spawnNotFound`, `spawnPermissionDenied`, `spawnFailed`, `resourceExhausted`
    ├── HttpError           kinds of `http/request`, see the class
    ├── LimitReached        kind `limitReached`: a bound of the server, which `limit` names, is reached
    ├── ShuttingDown        kind `shuttingDown`
    ├── Busy                kind `busy`: a bound of this connection is reached; try again later
    ├── NotAudited          kind `notAudited`: the audit log cannot tell of a start, so there is none
    └── ActorLost           kind `actorLost`: the actor that should have answered ended

A `kind` is part of the wire: once sent it keeps its meaning.
"""

from __future__ import annotations

import errno
import os
from typing import Any, ClassVar, Literal

HttpErrorKind = Literal[
    "httpConnectFailed",
    "httpTlsFailed",
    "httpTimeout",
    "tooManyRedirects",
    "bodyTooLarge",
    "httpBodyFailed",
    "httpFailed",
]


class ExecServerError(Exception):
    """An error with a JSON-RPC code. `message` tells a person what was wrong, `data` a program (a JSON object)."""

    code: ClassVar[int] = -32603

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel in actor messages, which may be pickled; the constructors of subclasses differ.
        return _rebuild, (type(self), self.message, self.data)


def _rebuild(kind: type[ExecServerError], message: str, data: dict[str, Any] | None) -> ExecServerError:
    error = kind.__new__(kind)
    ExecServerError.__init__(error, message, data)
    return error


class ParseError(ExecServerError):
    """The bytes are not one JSON-RPC message; answered with id -1, and the connection goes on."""

    code = -32600


class InvalidRequest(ExecServerError):
    """A request that this connection may not make now, or that names something unknown."""

    code = -32600


class UnknownSession(InvalidRequest):
    """`initialize` names a session that never was or has expired."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"unknown session id {session_id}")


class UnknownProcess(InvalidRequest):
    """No process of this id in the session: never started, or its record has been dropped."""

    def __init__(self, process_id: str) -> None:
        super().__init__(f"unknown process id {process_id}", {"kind": "unknownProcess"})


class ProcessExists(InvalidRequest):
    """`process/start` with an id that is still in use."""

    def __init__(self, process_id: str) -> None:
        super().__init__(f"process {process_id} already exists", {"kind": "processExists"})


class ModeNotAllowed(InvalidRequest):
    """`process/start` in a mode that this server was told not to take."""

    def __init__(self, mode: str, other: str) -> None:
        super().__init__(f"this server takes no starts of mode {mode}, only {other}", {"kind": "modeNotAllowed"})


class NotPermitted(InvalidRequest):
    """What this connection may not ask, because it was let in to watch and nothing else."""

    def __init__(self, message: str) -> None:
        super().__init__(message, {"kind": "notPermitted"})


class AccessDenied(InvalidRequest):
    """The operating system refused (EACCES, EPERM)."""


class MethodNotFound(ExecServerError):
    """A method this server does not have."""

    code = -32601

    def __init__(self, method: str) -> None:
        super().__init__(f"exec-server stub does not implement `{method}` yet")


class InvalidParams(ExecServerError):
    """Params of the wrong shape or value; the message names the member at fault."""

    code = -32602


class NotFound(ExecServerError):
    """A path or a file handle that does not exist."""

    code = -32004


class SessionAttached(ExecServerError):
    """`initialize` names a session that another living connection holds."""

    code = -32010

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} is already attached to another connection")


class InternalError(ExecServerError):
    """The machine or the server could not do what was asked."""

    code = -32603


class SpawnError(InternalError):
    """A child could not be started. `data.kind` as the wire has it; `data.reason` says what was at fault.

    Kinds: `spawnNotFound` (program or cwd missing), `spawnPermissionDenied`, `spawnFailed` (anything else about
    the request), `resourceExhausted` (no descriptors, processes, memory or PTYs left: worth trying later).
    """

    def __init__(self, kind: str, message: str, reason: str | None = None, **data: Any) -> None:
        details: dict[str, Any] = {"kind": kind, **data}
        if reason is not None:
            details["reason"] = reason
        super().__init__(message, details)

    @classmethod
    def from_errno(cls, code: int, reason: str) -> SpawnError:
        """The error for an errno, worded as the wire has it: `No such file or directory (os error 2)`."""
        return cls(_SPAWN_KINDS.get(code, "spawnFailed"), os_error_text(code), reason, errno=code)


class HttpError(InternalError):
    """An `http/request` got no response, or not all of it.

    Kinds: `httpConnectFailed` (no connection), `httpTlsFailed`, `httpTimeout` (the time of the request is over),
    `tooManyRedirects`, `bodyTooLarge`, `httpBodyFailed` (the body broke off or cannot be decoded), `httpFailed`
    (anything else of the exchange).
    """

    def __init__(self, kind: HttpErrorKind, message: str) -> None:
        super().__init__(message, {"kind": kind})


class LimitReached(InternalError):
    """A bound that the server was configured with is reached. `limit` is the name of the setting."""

    def __init__(self, limit: str, value: int, advice: str = "end something first", **data: Any) -> None:
        text = f"the limit {limit} of this server, {value}, is reached; {advice}"
        super().__init__(text, {"kind": "limitReached", "limit": limit, "value": value, **data})


class ShuttingDown(InternalError):
    """The server is about to end, and begins nothing new."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down", {"kind": "shuttingDown"})


class Busy(InternalError):
    """A bound of this connection is reached; the same request may succeed later."""

    def __init__(self, message: str) -> None:
        super().__init__(message, {"kind": "busy"})


class NotAudited(InternalError):
    """`process/start` where the audit log cannot tell of it: its disk is full, or far too slow."""

    def __init__(self) -> None:
        text = "the audit log of this server cannot be written, and nothing is started that it does not tell of"
        super().__init__(f"{text}; its disk may be full: try again later", {"kind": "notAudited"})


class ActorLost(InternalError):
    """The actor that should have answered is gone."""

    def __init__(self, message: str) -> None:
        super().__init__(message, {"kind": "actorLost"})


_EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
_SPAWN_KINDS = {
    errno.ENOENT: "spawnNotFound",
    errno.EACCES: "spawnPermissionDenied",
    errno.EPERM: "spawnPermissionDenied",
    **dict.fromkeys(_EXHAUSTED, "resourceExhausted"),
}


_TEXTS = {errno.ELOOP: "Symbolic link loop", errno.EIO: "I/O error"}
"""Where upstream's C library and glibc have other words, those of upstream, which clients have seen."""


def os_error_text(code: int) -> str:
    """The text of an errno as the wire has it, e.g. `Permission denied (os error 13)`."""
    return f"{_TEXTS.get(code) or os.strerror(code)} (os error {code})"


_BY_CODE: dict[int, type[ExecServerError]] = {
    kind.code: kind
    for kind in (InvalidRequest, MethodNotFound, InvalidParams, NotFound, SessionAttached, InternalError)
}
_BY_KIND: dict[str, type[ExecServerError]] = {
    "unknownProcess": UnknownProcess,
    "processExists": ProcessExists,
    "busy": Busy,
    "notAudited": NotAudited,
    "actorLost": ActorLost,
    "limitReached": LimitReached,
    **dict.fromkeys(("spawnNotFound", "spawnPermissionDenied", "spawnFailed", "resourceExhausted"), SpawnError),
}


def received_error(code: int, message: str, data: Any = None) -> ExecServerError:
    """The error that a server answered with: of the class of its `data.kind`, else of its code.

    A kind that is not known here counts as none. A code that is not known gives an ExecServerError with this code.
    """
    details = data if isinstance(data, dict) else None
    named = _BY_KIND.get(str(details.get("kind"))) if details is not None else None
    if named is None or named.code != code:
        named = _BY_CODE.get(code, ExecServerError)
    error = _rebuild(named, message, details)
    if error.code != code:
        vars(error)["code"] = code
    return error
