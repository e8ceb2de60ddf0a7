"""Types of members that several families share, and the way msgspec is told about their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

U64_MAX = 2**64 - 1
MIN_MESSAGE_BYTES = 256 * 1024
"""The least that a client must be able to take: one chunk of output, in base64, with room to spare."""
MAX_MILLIS = 10 * 365 * 86_400_000
"""Ten years: the longest time that a client may ask for, in milliseconds."""

NAME_CHARACTERS = 1024
"""Characters that an id or a name may have."""
PATH_BYTES = 4096
"""PATH_MAX of Linux: the longest path that a system call takes."""
PATH_CHARACTERS = 3 * PATH_BYTES + 64
"""Characters that a path may be written with: each byte as `%xx`, and `file://localhost` before it."""

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
"""An id, or the name of something."""
PathText = Annotated[str, msgspec.Meta(max_length=PATH_CHARACTERS)]
"""A `file:` URI or a native absolute path, as `protocol.paths` reads it."""

if TYPE_CHECKING:
    # A member that is always a number for its reader, although absent and null are allowed on the wire: see
    # `default_null`.
    U64 = int
    U64OrDefault = int
    Millis = int
    MessageBytes = int
    Limit = int
    WindowSide = int
else:
    # msgspec takes no bound above 2^63-1, so that of U64 is checked by `check_u64`.
    U64 = Annotated[int, msgspec.Meta(ge=0)]
    U64OrDefault = U64 | None
    Millis = Annotated[int, msgspec.Meta(ge=0, le=MAX_MILLIS)]
    Limit = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    MessageBytes = Annotated[int, msgspec.Meta(ge=MIN_MESSAGE_BYTES, le=2**63 - 1)]
    WindowSide = Annotated[int, msgspec.Meta(ge=1, le=65535)] | None


class WireStruct(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Params, results and notifications: camelCase on the wire, immutable, and free of cycles."""

    BULK: ClassVar[tuple[str, ...]] = ()
    """The members, in order, that may be large: bytes, or a list of Structs that have one of bytes themselves."""

    @property
    def bulk_bytes(self) -> int:
        """Bytes in the bulk members together, not encoded."""
        size = 0
        for name in self.BULK:
            size += len(getattr(self, name) or b"")
        return size

    def bytes_beside_bulk(self, element_bytes: int) -> int:
        """Bytes that the encoding of all else needs, rather more than less. Only for results with bulk members.

        `element_bytes`: what the encoding needs for an element of a list beside its own bulk.
        """
        return 512


class NotificationParams(WireStruct, frozen=True):
    """Params of a notification."""

    METHOD: ClassVar[str]


class Empty(WireStruct, frozen=True):
    """The result `{}`."""


def check_u64(member: str, value: int | None) -> None:
    """Raise ValueError, naming the member, for a number that does not fit an unsigned 64-bit integer."""
    if value is not None and value > U64_MAX:
        raise ValueError(f"invalid `{member}`: expected an integer <= {U64_MAX}")


def default_null(struct: msgspec.Struct, attribute: str, default: Any) -> None:
    """Put the default where the wire had null. Only for `__post_init__`, before anybody else can see the
    struct.
    """
    if getattr(struct, attribute) is None:
        msgspec.structs.force_setattr(struct, attribute, default)
