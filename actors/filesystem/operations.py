"""Which function carries out which request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.filesystem.metadata import get_metadata
from protocol.filesystem import GetMetadataParams

Operation = Callable[[Any], msgspec.Struct]

OPERATIONS: dict[type[msgspec.Struct], Operation] = {
    GetMetadataParams: get_metadata,
}
"""Params of a request -> what carries it out. Each may block, and raises ExecServerError."""


def carry_out(params: msgspec.Struct) -> msgspec.Struct:
    """Carry out one request that needs no handle; its result. Blocks. Raises ExecServerError."""
    return OPERATIONS[type(params)](params)
