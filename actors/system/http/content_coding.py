"""Content codings of HTTP bodies, gzip and zstd (RFC 1952, RFC 8878), decoded in pieces of bounded size."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from protocol.http import CHUNK_BYTES

_ZSTD_WINDOW_LOG = 23
"""8 MiB, the largest window that a body may ask for (RFC 9659)."""
FREE_PARTS = 1000
"""Gzip members or zstd frames that any body may have."""
BYTES_A_PART = 1024
"""Bytes that further ones must hold on average."""
_SLICE = 16384
_GZIP = 16 + zlib.MAX_WBITS


class CodingError(Exception):
    """The bytes are not what their coding says, or end too early."""


class Decoder(Protocol):
    """Decodes one body."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """What these bytes add, in pieces of at most CHUNK_BYTES, made one by one. Raises CodingError."""

    def finish(self) -> None:
        """The body is over. Raises CodingError if something is missing."""


def decoder_of(coding: str) -> Decoder:
    """The decoder for the value of a `Content-Encoding` field; other codings than gzip and zstd are passed on."""
    kind = _DECODERS.get(coding.strip().lower(), _Identity)
    return kind()


def is_decoded(coding: str) -> bool:
    """Whether `decoder_of` takes the coding away."""
    return coding.strip().lower() in _DECODERS


class _Parts:
    """Members or frames of one body: many small ones cost time, and hold nothing."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._begun = 0
        self._decoded = 0

    def begin(self) -> None:
        """Another one. Raises CodingError where there are too many for what they hold."""
        self._begun += 1
        if self._begun > FREE_PARTS + self._decoded // BYTES_A_PART:
            raise CodingError(f"{self._begun} {self._kind} for {self._decoded} bytes")

    def made(self, piece: bytes) -> None:
        """They hold this, too."""
        self._decoded += len(piece)


def _slices(data: bytes) -> Iterator[bytes]:
    """What is left behind the end of a part is copied, so it must be little."""
    return (data[at : at + _SLICE] for at in range(0, len(data), _SLICE))


class _Identity:
    def decode(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]

    def finish(self) -> None:
        pass


class _Gzip:
    """Members may follow one another (RFC 1952, section 2.2)."""

    def __init__(self) -> None:
        self._member: Any = None
        self._parts = _Parts("gzip members")

    def decode(self, data: bytes) -> Iterator[bytes]:
        for piece in _slices(data):
            yield from self._decode(piece)

    def _decode(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._member is None:
                    self._parts.begin()
                    self._member = zlib.decompressobj(_GZIP)
                piece = self._member.decompress(data, CHUNK_BYTES)
                while piece:
                    self._parts.made(piece)
                    yield piece
                    rest = self._member.unconsumed_tail
                    piece = b"" if self._member.eof else self._member.decompress(rest, CHUNK_BYTES)
                data = b""
                if self._member.eof:
                    data = self._member.unused_data
                    self._member = None
        except zlib.error as error:
            raise CodingError(f"not gzip: {error}") from None

    def finish(self) -> None:
        if self._member is not None:
            raise CodingError("the gzip data end too early")


class _Zstd:
    """Frames may follow one another (RFC 8878, section 3)."""

    def __init__(self) -> None:
        self._frame: Any = None
        self._parts = _Parts("zstd frames")

    def decode(self, data: bytes) -> Iterator[bytes]:
        for piece in _slices(data):
            yield from self._decode(piece)

    def _decode(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._frame is None:
                    self._parts.begin()
                    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
                    self._frame = zstd.ZstdDecompressor(options=options)
                piece = self._frame.decompress(data, CHUNK_BYTES)
                while piece:
                    self._parts.made(piece)
                    yield piece
                    piece = b"" if self._frame.eof else self._frame.decompress(b"", CHUNK_BYTES)
                data = b""
                if self._frame.eof:
                    data = self._frame.unused_data
                    self._frame = None
        except zstd.ZstdError as error:
            raise CodingError(f"not zstd: {error}") from None

    def finish(self) -> None:
        if self._frame is not None:
            raise CodingError("the zstd data end too early")


_DECODERS: dict[str, type[Decoder]] = {"gzip": _Gzip, "x-gzip": _Gzip, "zstd": _Zstd}
