"""Answers that need no process, because there is none."""

from __future__ import annotations

import msgspec

from protocol.errors import ExecServerError, UnknownProcess
from protocol.process import (
    ProcessCloseStdinParams,
    ProcessSignalParams,
    ProcessTerminateParams,
    ProcessTerminateResult,
    ProcessWriteParams,
    ProcessWriteResult,
)
from protocol.wire_types import Empty, WireStruct


def unknown_process_answer(params: msgspec.Struct, process_id: str) -> WireStruct | ExecServerError:
    """What a request about a process that is not there is answered with (wire-spec 5.3 to 5.6)."""
    match params:
        case ProcessWriteParams() | ProcessCloseStdinParams():
            return ProcessWriteResult(status="unknownProcess")
        case ProcessSignalParams():
            return Empty()
        case ProcessTerminateParams():
            return ProcessTerminateResult(running=False)
        case _:
            return UnknownProcess(process_id)
