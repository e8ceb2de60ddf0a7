"""Failures in words that a model can act on: what was wrong, and what to do next. Pure."""

from __future__ import annotations

import msgspec

from exec_server.client.errors import ConnectFailed, TransportDisconnected, Unauthorized
from exec_server.client.images import ImageError
from exec_server.unified_exec.report import UnifiedExecError, UnknownCommand
from protocol.errors import AccessDenied, ActorLost, ExecServerError, LimitReached, NotFound, SpawnError


class ToolError(Exception):
    """A call that cannot be carried out as it was made. Its text is for a model."""


def explained(error: Exception) -> str | None:
    """What a model is told of a failure; None for one that nobody has foreseen."""
    match error:
        case ToolError() | ImageError():
            return str(error)
        case msgspec.ValidationError():
            return f"Invalid arguments: {error}. See the input schema of the tool."
        case UnknownCommand():
            return f"{error}. list_processes shows those that are there."
        case UnifiedExecError() | ValueError() | ImportError():
            return str(error)
        case ExecServerError():
            return _of_server(error)
        case Unauthorized():
            return f"The machine does not let us in: {error}. A person has to see to the token."
        case ConnectFailed():
            return f"The machine cannot be reached: {error}. Try again later, or tell the user."
        case TransportDisconnected():
            return (
                f"The connection to the machine is lost: {error}. Its processes are gone, and it is not known whether "
                "this call did anything. The next call connects anew."
            )
        case OSError():
            return f"{error}. A person has to see to it."
        case _:
            return None


def _of_server(error: ExecServerError) -> str:
    text = error.message.rstrip(".")
    kind = (error.data or {}).get("kind")
    if isinstance(error, SpawnError):
        reason = (error.data or {}).get("reason")
        why = f"{text} ({reason})" if reason else text
        return f"The command could not be started: {why}. Does workdir exist?"
    if isinstance(error, NotFound):
        return f"{text}. list_directory shows what is there."
    if isinstance(error, AccessDenied):
        return f"{text}. This user, or the sandbox, may not do that."
    if isinstance(error, (LimitReached, ActorLost)) or kind == "busy":
        return f"{text}. Try again, or end processes with terminate_process."
    return f"{text}."
