"""File requests: carried out here, or in the sandbox that they name. The one place that chooses."""

from __future__ import annotations

from actors.system import filesystem
from protocol.requests import Params
from protocol.sandbox import to_enforce
from protocol.wire_types import WireStruct


def carry_out(params: Params, room: int | None = None) -> WireStruct:
    """Carry out one request that needs no handle, in its sandbox if it has one; its result. `room`: bytes of content
    that the answer may have. Blocks. Raises ExecServerError.
    """
    if to_enforce(getattr(params, "sandbox", None)) is None:
        return filesystem.carry_out(params, room)
    from actors.system.file_request import carry_out_inside  # not loaded for the many that have none

    return carry_out_inside(params, room)
