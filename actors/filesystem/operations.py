"""Which function carries out which request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.filesystem.directories import create_directory
from actors.filesystem.metadata import canonicalize, get_metadata
from actors.filesystem.reading import read_file
from actors.filesystem.removing import remove
from actors.filesystem.walking import walk
from actors.filesystem.writing import write_file
from protocol.filesystem import (
    CanonicalizeParams,
    CreateDirectoryParams,
    GetMetadataParams,
    ReadFileParams,
    RemoveParams,
    WalkParams,
    WriteFileParams,
)

Operation = Callable[[Any], msgspec.Struct]

OPERATIONS: dict[type[msgspec.Struct], Operation] = {
    ReadFileParams: read_file,
    WriteFileParams: write_file,
    CreateDirectoryParams: create_directory,
    GetMetadataParams: get_metadata,
    CanonicalizeParams: canonicalize,
    WalkParams: walk,
    RemoveParams: remove,
}
"""Params of a request -> what carries it out. Each may block, and raises ExecServerError."""


def carry_out(params: msgspec.Struct) -> msgspec.Struct:
    """Carry out one request that needs no handle; its result. Blocks. Raises ExecServerError."""
    return OPERATIONS[type(params)](params)
