"""Which function carries out which request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.system.filesystem.copying import copy
from actors.system.filesystem.directories import create_directory, read_directory
from actors.system.filesystem.metadata import canonicalize, get_metadata
from actors.system.filesystem.reading import read_file
from actors.system.filesystem.removing import remove
from actors.system.filesystem.walking import walk
from actors.system.filesystem.writing import write_file
from protocol.filesystem import (
    CanonicalizeParams,
    CopyParams,
    CreateDirectoryParams,
    GetMetadataParams,
    ReadDirectoryParams,
    ReadFileParams,
    RemoveParams,
    WalkParams,
    WriteFileParams,
)
from protocol.requests import AnyParams, Params
from protocol.sandbox import to_enforce
from protocol.wire_types import WireStruct

Operation = Callable[[Any], WireStruct]

OPERATIONS: dict[AnyParams, Operation] = {
    ReadFileParams: read_file,
    WriteFileParams: write_file,
    CreateDirectoryParams: create_directory,
    GetMetadataParams: get_metadata,
    CanonicalizeParams: canonicalize,
    ReadDirectoryParams: read_directory,
    WalkParams: walk,
    RemoveParams: remove,
    CopyParams: copy,
}
"""Params of a request -> what carries it out. Each may block, and raises ExecServerError."""


def carry_out(params: Params, room: int | None = None) -> WireStruct:
    """Carry out one request that needs no handle, in its sandbox if it has one; its result. `room`: bytes of content
    that the answer may have. Blocks. Raises ExecServerError.
    """
    if to_enforce(getattr(params, "sandbox", None)) is not None:
        # Not needed, and not imported, where this runs in the sandbox itself.
        from actors.system.sandbox.file_request import carry_out_inside

        return carry_out_inside(params, room)
    if isinstance(params, ReadFileParams):
        return read_file(params, room)
    return OPERATIONS[type(params)](params)
