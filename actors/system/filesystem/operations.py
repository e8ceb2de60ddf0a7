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
from protocol.errors import InternalError
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
    """Carry out one request that needs no handle, and has no sandbox that is to be entered first; its result. `room`:
    bytes of content that the answer may have. Blocks. Raises ExecServerError.
    """
    if to_enforce(getattr(params, "sandbox", None)) is not None:
        raise InternalError("a file request was to be carried out outside of its sandbox")
    if isinstance(params, ReadFileParams):
        return read_file(params, room)
    return OPERATIONS[type(params)](params)
