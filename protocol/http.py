"""`http/request`: params, result and notification (wire-spec section 8).

The server makes the request from the machine it runs on. Bodies are base64 in JSON and raw in MessagePack.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from protocol.wire_types import U64, WireStruct, check_u64

RedirectPolicy = Literal["follow", "stop"]
CHUNK_BYTES = 64 * 1024
"""The most that one `http/request/bodyDelta` carries, in bytes."""


class HttpRequestHeader(WireStruct, frozen=True):
    """A header field to send. With `value_env_var` its value is that variable of the server's environment, and
    `value` is ignored.
    """

    name: str
    value: str
    value_env_var: str | None = None


class HttpRequestParams(WireStruct, frozen=True, kw_only=True):
    """A request to make. `timeout_ms` None sets no limit, and is for the whole of it, body included."""

    method: str
    url: str
    headers: list[HttpRequestHeader] = msgspec.field(default_factory=list)
    body_base64: bytes | None = None
    timeout_ms: U64 | None = None
    redirect_policy: RedirectPolicy | None = None
    """None is `follow`."""
    request_id: str
    """Names the body in `http/request/bodyDelta`."""
    stream_response: bool = False

    def __post_init__(self) -> None:
        check_u64("timeoutMs", self.timeout_ms)


class HttpHeader(WireStruct, frozen=True):
    """A header field of a response; the name is in lower case."""

    name: str
    value: str


class HttpRequestResult(WireStruct, frozen=True):
    """The response, whatever its status; header fields in their order, with repeats. The body is empty where it is
    streamed. `body_base64` must stay the last member: the codec builds large results around it.
    """

    status: int
    headers: list[HttpHeader]
    body_base64: bytes

    @property
    def size_beside_body(self) -> int:
        """About what the rest takes, in bytes."""
        return 256 + sum(32 + len(header.name) + len(header.value) for header in self.headers)


class HttpBodyDelta(WireStruct, frozen=True):
    """The next bytes of a streamed body. The last one is empty and `done`, with a text in `error` if the body broke
    off. `seq` rises from 1 without a hole.
    """

    METHOD: ClassVar[str] = "http/request/bodyDelta"

    request_id: str
    seq: int
    delta_base64: bytes
    done: bool
    error: str | None
