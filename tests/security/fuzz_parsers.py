"""Coverage-guided fuzzing of the pure parsers: `python -m tests.security.fuzz_parsers PARSER [options of libFuzzer]`.

Needs atheris, which is no dependency of the tests: `pip install atheris`. A parser is one of `PARSERS`; useful
options are `-max_total_time=SECONDS` and `-seed=N`. What it has found out is kept in a temporary folder and serves the
next run. Without atheris, a file with an input is
run once: `python -m tests.security.fuzz_parsers PARSER FILE`. Ends with a traceback and the input in a file at the
first input that breaks a promise.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None

_instrumented: AbstractContextManager[Any] = (
    nullcontext() if atheris is None else atheris.instrument_imports(include=["protocol", "transport", "websockets"])
)
with _instrumented:
    from websockets.server import ServerProtocol

    from protocol.codec import JSON, MSGPACK, Codec
    from protocol.envelope import Request
    from protocol.errors import ExecServerError, ParseError
    from protocol.methods import METHODS
    from transport.admission import handshake
    from transport.admission.rules import Admission
    from transport.framing.lines import LineFramer
    from transport.framing.msgpack import MessagePackFramer
    from transport.framing.websocket import WebSocketFramer

ROOM = 1000


def _in_pieces(reader: Any, data: bytes) -> list[bytes]:
    """Read as a socket gives it: in pieces, whose sizes the input chooses itself: tiny ones at first."""
    inbox: deque[bytes] = deque()
    at = 0
    while at < len(data):
        size = 1 + data[at] % 7 * (1 + at // 64)
        reader.read(data[at : at + size], inbox, ROOM)
        at += size
    return list(inbox)


def _at_once(reader: Any, data: bytes) -> list[bytes]:
    inbox: deque[bytes] = deque()
    reader.read(data, inbox, ROOM)
    return list(inbox)


def frames(data: bytes) -> None:
    """However the bytes are cut, the messages, the control frames and the fault are the same."""
    whole, pieces = WebSocketFramer(1 << 16), WebSocketFramer(1 << 16)
    assert _at_once(whole, data) == _in_pieces(pieces, data)
    assert (whole.failure, whole.controls) == (pieces.failure, pieces.controls)


def lines(data: bytes) -> None:
    """However the bytes are cut, the lines are the same."""
    whole, pieces = LineFramer(1 << 16), LineFramer(1 << 16)
    assert _at_once(whole, data) == _in_pieces(pieces, data)
    assert whole.failure == pieces.failure


def maps(data: bytes) -> None:
    """However the bytes are cut, the maps are the same."""
    whole, pieces = MessagePackFramer(1 << 16), MessagePackFramer(1 << 16)
    assert _at_once(whole, data) == _in_pieces(pieces, data)
    assert bool(whole.failure) == bool(pieces.failure)


def head(data: bytes) -> None:
    """Every head is refused or upgraded, and what is answered is HTTP."""
    end = handshake.head_end(data)
    if end < 0 or end > handshake.HEAD_LIMIT or not handshake.may_be_http(data):
        return
    library = ServerProtocol(select_subprotocol=handshake.choose_subprotocol(["exec-server.msgpack"]))
    parsed = handshake.parse_head(library, data[:end])
    if parsed is None:
        return
    answer = handshake.refusal(*parsed, Admission(), "127.0.0.1", "fuzz")
    if answer is not None:
        assert answer.encode().startswith(b"HTTP/1.1 ")
    else:
        library.accept(parsed[0])


def _messages(codec: Codec, data: bytes) -> None:
    """A message is taken apart or refused; params are those of the method or refused, whatever they are."""
    try:
        message = codec.decode(data)
    except ParseError as error:
        assert error.message
        return
    if isinstance(message, Request):
        for method in METHODS.values():
            try:
                codec.decode_params(method, message.params)
            except ExecServerError as error:
                assert error.message
                codec.encode_error(message.id, error)


PARSERS: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "lines": lines,
    "maps": maps,
    "head": head,
    "json": lambda data: _messages(JSON, data),
    "msgpack": lambda data: _messages(MSGPACK, data),
}


def seeds(parser: str) -> list[bytes]:
    """Good input to begin with."""
    from tests.security.grammar import ENCODERS, HARMLESS
    from tests.transport.support import UPGRADE, masked_frame

    texts = [json.dumps(each).encode() for each in HARMLESS]
    return {
        "frames": [masked_frame(0x81, text) for text in texts]
        + [masked_frame(0x89, b"x"), masked_frame(0x01, b"\xc3")],
        "lines": [text + b"\n" for text in texts],
        "head": [UPGRADE],
        "json": texts,
    }.get(parser, [ENCODERS["msgpack"](each) for each in HARMLESS])


def main(argv: list[str]) -> int:
    if len(argv) < 2 or argv[1] not in PARSERS:
        print(f"usage: python -m tests.security.fuzz_parsers {'|'.join(PARSERS)} [FILE or options]", file=sys.stderr)
        return 2
    parser = PARSERS[argv[1]]
    if len(argv) == 3 and Path(argv[2]).is_file():
        parser(Path(argv[2]).read_bytes())
        return 0
    if atheris is None:
        print("atheris is missing: pip install atheris", file=sys.stderr)
        return 2
    corpus = Path(tempfile.gettempdir()) / f"exec-server-fuzz-{argv[1]}"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds(argv[1])):
        (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup([argv[0], str(corpus), *argv[2:]], parser)
    atheris.Fuzz()  # does not return
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
