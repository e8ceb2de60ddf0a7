"""The encodings of the wire as a client has them: the same messages, with base64 text for bytes, on either."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

import msgpack
import msgspec

SUBPROTOCOL = "exec-server.msgpack"
RAW = ("chunk", "dataBase64", "stdout", "stderr", "terminal")
"""Members that are base64 in JSON, wherever they stand and are no numbers."""


class Encoding(Protocol):
    """How messages become bytes, and the WebSocket subprotocol that asks for it."""

    name: str
    subprotocol: str | None

    def encode(self, message: Mapping[str, Any]) -> bytes: ...
    def decode(self, data: bytes | str) -> Any: ...


class JsonEncoding:
    name = "json"
    subprotocol = None

    def encode(self, message: Mapping[str, Any]) -> bytes:
        return msgspec.json.encode(message)

    def decode(self, data: bytes | str) -> Any:
        return msgspec.json.decode(data)


class MsgpackEncoding:
    """Bytes are raw on the wire, and looked at there: a server that sends base64 text fails the test."""

    name = "msgpack"
    subprotocol = SUBPROTOCOL

    def encode(self, message: Mapping[str, Any]) -> bytes:
        params = message.get("params") if isinstance(message, Mapping) else None
        for member in ("chunk", "dataBase64"):
            if isinstance(params, Mapping) and isinstance(params.get(member), str):
                message = {**message, "params": {**params, member: _raw(params[member])}}
        packed: bytes = msgpack.packb(message)
        return packed

    def decode(self, data: bytes | str) -> Any:
        return _with_text(msgpack.unpackb(data))


JSON = JsonEncoding()
MSGPACK = MsgpackEncoding()
ENCODINGS: dict[str, Encoding] = {"json": JSON, "msgpack": MSGPACK}


def _raw(text: str) -> bytes | str:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text  # a test of what is no base64


def _with_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_with_text(each) for each in value]
    if isinstance(value, dict):
        for name in RAW:
            assert not isinstance(value.get(name), str), f"`{name}` is text on MessagePack: {value}"
        return {name: _with_text(each) for name, each in value.items()}
    return value
