"""The encodings that a conversation may be held in."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol

from tests.support.encodings import MSGPACK as MSGPACK


class Encoding(Protocol):
    """How messages become text or bytes, and the WebSocket subprotocol that asks for it."""

    name: str
    subprotocol: str | None

    def encode(self, message: Mapping[str, Any]) -> str | bytes: ...
    def decode(self, data: bytes) -> Any: ...


class JsonEncoding:
    name = "json"
    subprotocol = None

    def encode(self, message: Mapping[str, Any]) -> str:
        return json.dumps(message)

    def decode(self, data: bytes) -> Any:
        return json.loads(data)


JSON = JsonEncoding()
ENCODINGS: dict[str, Encoding] = {"json": JSON, "msgpack": MSGPACK}


def in_messagepack(text: str) -> bytes | None:
    """What is written as JSON, in MessagePack; None for what cannot be said there, or is no JSON at all."""
    try:
        message = json.loads(text, object_pairs_hook=_members)
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and "dataBase64" in params:
            base64.b64decode(params["dataBase64"], validate=True)
        return MSGPACK.encode(message)
    except (ValueError, OverflowError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a map cannot have a key twice")
    return dict(pairs)
