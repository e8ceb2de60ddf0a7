"""`http/request`: params, result and notification (docs/protocol.md, "http/request").

The server makes the request from the machine it runs on. Bodies are base64 in JSON and raw in MessagePack.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from protocol.requests import Params
from protocol.wire_types import U64, Name, NotificationParams, WireStruct, check_u64

RedirectPolicy = Literal["follow", "stop"]
Url = Annotated[str, msgspec.Meta(max_length=64 * 1024)]
HeaderValue = Annotated[str, msgspec.Meta(max_length=64 * 1024)]
CHUNK_BYTES = 64 * 1024
"""The most that one `http/request/bodyDelta` carries, in bytes."""


class HttpRequestHeader(WireStruct, frozen=True):
    """A header field to send. With `value_env_var` its value is that variable of the server's environment, and
    `value` is ignored.
    """

    name: Name
    value: HeaderValue
    value_env_var: Name | None = None


class HttpHeader(WireStruct, frozen=True):
    """A header field of a response; the name is in lower case."""

    name: str
    value: str


class HttpRequestResult(WireStruct, frozen=True):
    """The response, whatever its status; header fields in their order, with repeats. The body is empty where it is
    streamed.
    """

    BULK = ("body_base64",)

    status: int
    headers: list[HttpHeader]
    body_base64: bytes

    def bytes_beside_bulk(self, element_bytes: int) -> int:
        return 256 + sum(32 + len(header.name) + len(header.value) for header in self.headers)


class HttpRequestParams(Params, frozen=True, kw_only=True):
    """A request to make. `timeout_ms` None sets no limit, and is for the whole of it, body included."""

    METHOD = "http/request"
    RESULT = HttpRequestResult
    FAMILY = "http"
    BULK = ("body_base64",)

    method: Name
    url: Url
    headers: Annotated[list[HttpRequestHeader], msgspec.Meta(max_length=1024)] = msgspec.field(default_factory=list)
    body_base64: bytes | None = None
    timeout_ms: U64 | None = None
    redirect_policy: RedirectPolicy | None = None
    """None is `follow`."""
    request_id: Name
    """Names the body in `http/request/bodyDelta`."""
    stream_response: bool = False

    def __post_init__(self) -> None:
        check_u64("timeoutMs", self.timeout_ms)


class HttpBodyDelta(NotificationParams, frozen=True):
    """The next bytes of a streamed body. The last one is empty and `done`, with a text in `error` if the body broke
    off. `seq` rises from 1 without a hole.
    """

    METHOD = "http/request/bodyDelta"
    BULK = ("delta_base64",)

    request_id: str
    seq: int
    delta_base64: bytes
    done: bool
    error: str | None
