"""The file helper: one file request in a process of its own, so that it can run where its caller does not (a sandbox).

    fs-helper read PATH     the bytes of a regular file on standard output; on failure status 1, and on standard error
                            one line of JSON: {"kind", "message", "raw_os_error"}
    fs-helper call          a request as one line of JSON on standard input, {"method", "params", "room"?}; on standard
                            output one line of JSON, {"result"} or {"error": {"code", "message", "data"}}

It is started for each request, so that nothing is imported here that a request does not need.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from actors.system.filesystem.operations import OPERATIONS, carry_out
from actors.system.filesystem.reading import open_to_read
from protocol.errors import ExecServerError, InvalidParams, MethodNotFound
from protocol.paths import file_path
from protocol.requests import Params
from protocol.wire_types import WireStruct

USAGE: Final = "usage: exec-server fs-helper read PATH\n       exec-server fs-helper call < REQUEST\n"
_PIECE: Final = 1 << 20

Kind = Literal["not_found", "permission_denied", "is_a_directory", "invalid_data", "other"]
_KINDS: dict[int, Kind] = {
    errno.ENOENT: "not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EISDIR: "is_a_directory",
}


METHODS = {kind.METHOD: kind for kind in OPERATIONS}
"""The requests that need no handle, by the names of their methods."""


class ReadFailure(msgspec.Struct, frozen=True):
    """Why a file could not be read, as `read` prints it."""

    kind: Kind
    message: str
    raw_os_error: int | None


class HelperRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `call` takes. `room`: bytes that the content of a file may have."""

    method: str
    params: msgspec.Raw
    room: int | None = None


class HelperError(msgspec.Struct, frozen=True):
    """An error of the wire."""

    code: int
    message: str
    data: dict[str, Any] | None


class HelperAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `call` prints; one of the two."""

    result: msgspec.Raw = msgspec.Raw(b"")
    error: HelperError | None = None


CarryOut = Callable[[Params, int | None], WireStruct]
"""Carries out a request whose answer may have so many bytes of content; see `operations.carry_out`."""


def main(argv: Sequence[str], carry_out: CarryOut = carry_out) -> int:
    """Run the helper; its exit status: 0, 1 for a failure that it has told, 2 for wrong arguments."""
    match list(argv):
        case ["read", path]:
            return _read(path)
        case ["call"]:
            return _call(carry_out)
        case mistaken:
            sys.stderr.write(f"exec-server fs-helper: {_mistake(mistaken)}\n{USAGE}")
            return 2


def _mistake(argv: Sequence[str]) -> str:
    """What is wrong with arguments that the helper does not take."""
    match argv:
        case []:
            return "it was not said what to do"
        case ["read"]:
            return "`read` needs the PATH of a file"
        case ["read", *paths]:
            return f"`read` takes one PATH, not {len(paths)}; a request for each"
        case ["call", *more]:
            return f"`call` takes no arguments, not {more[0]!r}; its request comes on standard input"
        case [other, *_]:
            return f"there is no request {other!r}"
    raise AssertionError(argv)


def _read(path: str) -> int:
    try:
        native = file_path(path)
        if os.path.isdir(native):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        fd = open_to_read(native)
        while piece := os.read(fd, _PIECE):
            _write_all(piece)
        return 0
    except OSError as error:
        failure = ReadFailure(_KINDS.get(error.errno or 0, "other"), f"{error.strerror}: {path}", error.errno)
    except ExecServerError as error:
        failure = ReadFailure("invalid_data", error.message, None)
    sys.stderr.write(msgspec.json.encode(failure).decode() + "\n")
    return 1


def _call(carry_out: CarryOut) -> int:
    try:
        answer = HelperAnswer(result=msgspec.Raw(msgspec.json.encode(_answer(sys.stdin.buffer.readline(), carry_out))))
    except ExecServerError as error:
        answer = HelperAnswer(error=HelperError(error.code, error.message, error.data))
    _write_all(msgspec.json.encode(answer) + b"\n")
    return 0


def _answer(line: bytes, carry_out: CarryOut) -> WireStruct:
    """Raises ExecServerError."""
    try:
        request = msgspec.json.decode(line, type=HelperRequest)
        if request.method not in METHODS:
            raise MethodNotFound(request.method)
        params = msgspec.json.decode(request.params, type=METHODS[request.method])
    except msgspec.DecodeError as error:
        raise InvalidParams(str(error)) from None
    return carry_out(params, request.room)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
