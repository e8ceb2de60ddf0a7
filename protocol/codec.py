"""Bytes <-> messages: what an encoding of the wire promises, and the encodings there are. One Struct serves all
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Raw

from protocol.envelope import Message, RequestId
from protocol.errors import ExecServerError
from protocol.json_codec import JsonCodec
from protocol.msgpack_codec import MsgpackCodec
from protocol.requests import AnyParams
from protocol.wire_types import NotificationParams, WireStruct


class Codec(Protocol):
    """One encoding of the wire."""

    name: str

    def decode(self, message: bytes) -> Message:
        """Classify one message. Raises ParseError, whose message is the reason without any prefix."""

    def decode_params(self, kind: AnyParams, params: Raw | None) -> Any:
        """The params of a request of this kind. Raises InvalidParams naming the member at fault."""

    def encode_result(self, id: RequestId, result: WireStruct) -> bytes:
        """The answer to a request."""

    def encode_result_pieces(self, id: RequestId, result: WireStruct) -> Iterator[bytes]:
        """The same bytes in pieces of about 512 KiB, each made when it is asked for."""

    def encoded_size_hint(self, result: WireStruct) -> int:
        """Bytes that `encode_result` will need, rather more than less; cheap beside encoding output."""

    def room_for_bytes(self, max_message: int) -> int:
        """How many bytes a result of one member of bytes may have, so that the message is no longer than this."""

    def encode_error(self, id: RequestId, error: ExecServerError) -> bytes:
        """The refusal of a request."""

    def encode_notification(self, notification: NotificationParams) -> bytes:
        """A notification."""


JSON: Codec = JsonCodec()
MSGPACK: Codec = MsgpackCodec()

MSGPACK_SUBPROTOCOL = "exec-server.msgpack"
"""The WebSocket subprotocol whose messages are MessagePack; without one they are JSON."""


def codec_of(subprotocol: str | None) -> Codec:
    """The encoding of a connection with this subprotocol."""
    return MSGPACK if subprotocol == MSGPACK_SUBPROTOCOL else JSON
