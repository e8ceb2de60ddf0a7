"""One file request in a managed sandbox: the file helper carries it out inside, in a process of its own.

It is the same code that serves requests without a sandbox (actors.system.filesystem). Blocks, for at most 30 s and
what it takes to start a process.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any, Final

import msgspec

from actors.system.child import Child
from actors.system.filesystem.helper import METHODS as IN_HELPER
from actors.system.filesystem.helper import HelperAnswer, HelperRequest
from actors.system.launch import LaunchRequest, launch
from actors.system.programs import FILE_HELPER
from actors.system.sandbox.errors import SandboxUnsupported
from actors.system.sandbox.spec import import_path, interpreter
from protocol.errors import InternalError, InvalidRequest, received_error
from protocol.requests import AnyParams
from protocol.wire_types import WireStruct

ENDED_AFTER_S: Final = 30.0
"""How long the helper may take, in seconds."""
MOST_CONTENT: Final = 64 << 20
"""Bytes of a file that one answer may bring out, whatever the client takes."""
_MOST_ANSWER: Final = MOST_CONTENT * 4 // 3 + (1 << 20)
_MOST_SAID: Final = 4096
_PIECE: Final = 1 << 20


def carry_out_inside(params: Any, room: int | None = None) -> WireStruct:
    """Carry out one request in its sandbox; its result. `room`: bytes of content that the client takes.

    Raises ExecServerError: what the request itself would, SandboxUnsupported where it or its sandbox cannot be had.
    """
    method = params.METHOD
    if method not in IN_HELPER:
        raise SandboxUnsupported(f"{method}: a handle would lead out of the sandbox; use fs/readFile and fs/writeFile")
    raw = msgspec.Raw(msgspec.json.encode(msgspec.structs.replace(params, sandbox=None)))
    room = MOST_CONTENT if room is None else min(room, MOST_CONTENT)
    request = msgspec.json.encode(HelperRequest(method, raw, room)) + b"\n"
    paths = import_path()
    argv = [interpreter(), "-I", "-S", "-c", FILE_HELPER.decode(), str(len(paths)), *paths, "call"]
    child = launch(LaunchRequest(argv=argv, cwd="/", env={}, pipe_stdin=True, sandbox=params.sandbox))
    try:
        answer, said = _exchange(child, request, method)
    finally:
        _end(child)
    return _result(type(params), answer, said)


def _exchange(child: Child, request: bytes, method: str) -> tuple[bytes, bytes]:
    """All that the helper prints, and the end of what it says on standard error. Raises ExecServerError."""
    deadline = time.monotonic() + ENDED_AFTER_S
    left = memoryview(request)
    printed = {child.stdout: bytearray(), child.stderr: bytearray()}
    ready = select.poll()
    for fd in (child.stdout, child.stderr):
        ready.register(fd, select.POLLIN)  # type: ignore[arg-type]
    ready.register(child.stdin, select.POLLOUT)  # type: ignore[arg-type]
    open_outputs = 2
    while open_outputs:
        events = ready.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not events:
            text = f"{method}: the file helper was ended after {ENDED_AFTER_S:.0f} s"
            raise InternalError(text, {"kind": "timedOut"})
        for fd, _ in events:
            if fd == child.stdin:
                left = left[_write(fd, left) :]
                if not left:
                    ready.unregister(fd)
                    os.close(fd)
                    child.stdin = None
                continue
            piece = os.read(fd, _PIECE)
            printed[fd] += piece
            if not piece:
                ready.unregister(fd)
                open_outputs -= 1
            elif fd == child.stderr:
                del printed[fd][:-_MOST_SAID]
            elif len(printed[fd]) > _MOST_ANSWER:
                raise InvalidRequest(f"{method}: the answer has more than {_MOST_ANSWER} bytes", {"kind": "tooLarge"})
    return bytes(printed[child.stdout]), bytes(printed[child.stderr])


def _write(fd: int, data: memoryview) -> int:
    """Bytes taken; all of them where nobody reads any more, which its exit will tell about."""
    try:
        return os.write(fd, data[:_PIECE])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def _end(child: Child) -> None:
    """Whatever it is doing: end it, and reap it."""
    child.kill_tree()
    ended = select.poll()
    ended.register(child.pidfd, select.POLLIN)
    if ended.poll(ENDED_AFTER_S * 1000):
        child.reap()
    child.release()


def _result(kind: AnyParams, answer: bytes, said: bytes) -> WireStruct:
    try:
        decoded = msgspec.json.decode(answer, type=HelperAnswer)
        if decoded.error is None:
            return msgspec.json.decode(decoded.result, type=kind.RESULT)
    except msgspec.DecodeError:
        text = said.decode(errors="replace").strip() or "it has printed no answer"
        raise InternalError(f"{kind.METHOD}: the file helper failed: {text}", {"kind": "other"}) from None
    raise received_error(decoded.error.code, decoded.error.message, decoded.error.data)
