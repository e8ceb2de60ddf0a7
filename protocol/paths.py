"""`file:` URI or native absolute path -> native path, and back (docs/protocol.md, "Types"; WHATWG URL, file
state).

Native paths are `str` with undecodable bytes as surrogates (`os.fsdecode`), so every name the system can hold
has a URI.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

from protocol.errors import InvalidParams
from protocol.wire_types import PATH_BYTES, PATH_CHARACTERS

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_DRIVE = re.compile(r"/+(?:[A-Za-z]|%[46][1-9A-Fa-f]|%[57][0-9Aa])(?::|%3[Aa]|\|)(?:/|$)")
_DOT = re.compile(r"(?:\.|%2[Ee]){1,2}")
# WHATWG's path percent-encode set and `%`; also `\\`, which a parser of file URIs takes for a slash.
_SAFE = "/!$&'()*+,-.:;=@[]_|~"
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))


def native_path(text: str) -> str:
    """The absolute native path that a client means.

    A native absolute path is taken as it is; of a URI the path is percent-decoded and its `.` and `..`
    segments are resolved lexically. Raises InvalidParams for a relative path, a scheme other than `file:`, a
    query or fragment, another host, a drive letter, a NUL byte, and what is longer than a path can be: that
    before anything else is looked at.
    """
    if len(text) > PATH_CHARACTERS:
        raise _too_long(f"{len(text)} characters", PATH_CHARACTERS)
    if not text.startswith("/"):
        path = _from_uri(text)
    elif "\0" in text:
        raise InvalidParams(_invalid(text))
    else:
        path = text
    if len(path) > PATH_BYTES // 4 and len(os.fsencode(path)) > PATH_BYTES:
        raise _too_long(f"{len(os.fsencode(path))} bytes", PATH_BYTES)
    return path


def file_path(text: str) -> str:
    """`native_path` without slashes at the end, which mean nothing in a `file:` URI. Raises as that does."""
    return native_path(text).rstrip("/") or "/"


def cwd_path(text: str) -> str:
    """`native_path` for the `cwd` of a process, with the error texts of that member."""
    try:
        return native_path(text)
    except InvalidParams as error:
        if error.message == _invalid(text):
            raise InvalidParams(f"cwd URI `{text}` is not valid on this exec-server host: {error.message}") from None
        raise


def path_uri(path: str | bytes) -> str:
    """The `file:` URI of a native absolute path. Raises ValueError for a relative one."""
    raw = os.fsencode(path)
    if not raw.startswith(b"/"):
        raise ValueError(f"not an absolute path: {path!r}")
    return "file://" + quote_from_bytes(raw, safe=_SAFE)


def _too_long(size: str, most: int) -> InvalidParams:
    return InvalidParams(f"path of {size}, more than the {most} that are allowed", {"kind": "nameTooLong"})


def _invalid(text: str) -> str:
    return f"'{text}' is invalid on 'linux'"


def _from_uri(text: str) -> str:
    # As WHATWG's parser: surrounding controls and spaces go, tabs and line ends go anywhere, `\\` is a slash.
    url = text.strip(_CONTROLS_AND_SPACE).translate({9: None, 10: None, 13: None})
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise InvalidParams("invalid URI: relative URL without a base")
    if scheme[0].lower() != "file:":
        raise InvalidParams(f"unsupported path URI scheme `{scheme[0][:-1].lower()}`")
    rest, _, fragment = url[scheme.end() :].partition("#")
    rest, query, _ = rest.partition("?")
    if query:
        raise InvalidParams("query parameters are not allowed in path URIs")
    if fragment:
        raise InvalidParams("fragments are not allowed in path URIs")
    rest = rest.replace("\\", "/")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise InvalidParams(_invalid(text))
        rest = slash + path
    if _DRIVE.match("/" + rest):
        raise InvalidParams(_invalid(text))
    raw = unquote_to_bytes(without_dots(rest))
    if b"\0" in raw:
        raise InvalidParams(_invalid(text))
    return os.fsdecode(raw)


def without_dots(path: str) -> str:
    """Resolve dot segments, also percent-encoded ones, as WHATWG does: before decoding, so that `%2F` makes
    none.
    """
    segments: list[str] = []
    parts = path.removeprefix("/").split("/")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if _DOT.fullmatch(part) is None:
            segments.append(part)
            continue
        if len(part.lower().replace("%2e", ".")) == 2 and segments:
            segments.pop()
        if last:
            segments.append("")
    return "/" + "/".join(segments)
