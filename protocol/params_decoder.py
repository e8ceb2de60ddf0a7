"""Params of any method, in any encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from protocol.decode_errors import length_at, params_fault
from protocol.errors import InvalidParams
from protocol.requests import AnyParams, NoParams


class ParamsDecoder:
    """Decodes params with the decoders of one encoding, which `make_decoder` makes when they are needed first.

    `decode` is msgspec's function, `binary` what this encoding calls bytes, both for error texts.
    """

    def __init__(
        self, make_decoder: Callable[[Any], Callable[[Raw], Any]], decode: Callable[..., Any], binary: str
    ) -> None:
        self._make_decoder = make_decoder
        self._decode = decode
        self._binary = binary
        self._decoders: dict[type[Struct], Callable[[Raw], Any]] = {}

    def decode(self, kind: AnyParams, params: Raw | None) -> Any:
        """Params of this kind. Raises InvalidParams naming the member at fault."""
        if params is None:
            if issubclass(kind, NoParams):
                return kind()
            raise InvalidParams(f"invalid type: null, expected struct {kind.__name__}")
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = self._make_decoder(kind)
        try:
            return decoder(params)
        except msgspec.ValidationError as error:
            raise InvalidParams(params_fault(error, kind, self._binary, self._measure(params))) from None

    def _measure(self, params: Raw) -> Callable[[str, str], int]:
        return lambda path, container: length_at(params, path, container, self._decode)
