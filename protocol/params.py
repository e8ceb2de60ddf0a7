"""Params of any method, in any encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from protocol.decode_faults import params_fault
from protocol.errors import InvalidParams
from protocol.methods import Method
from protocol.wire_types import NoParams


class ParamsReader:
    """Reads params with the decoders of one encoding, which `make_decoder` makes when they are needed first.

    `binary` is what this encoding calls bytes, for error texts.
    """

    def __init__(self, make_decoder: Callable[[type[Struct]], Callable[[Raw], Any]], binary: str) -> None:
        self._make_decoder = make_decoder
        self._binary = binary
        self._decoders: dict[type[Struct], Callable[[Raw], Any]] = {}

    def read(self, method: Method, params: Raw | None) -> Any:
        """Params as the method's type has them. Raises InvalidParams naming the member at fault."""
        kind = method.params
        if params is None:
            if kind is NoParams:
                return NoParams()
            raise InvalidParams(f"invalid type: null, expected struct {kind.__name__}")
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = self._make_decoder(kind)
        try:
            return decoder(params)
        except msgspec.ValidationError as error:
            raise InvalidParams(params_fault(error, kind, self._binary)) from None
