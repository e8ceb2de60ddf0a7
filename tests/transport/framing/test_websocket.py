"""The frame reader against the library's own, frame by frame and for any split of the stream."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from tests.support.examples import examples
from tests.transport.support import frame_head, masked_frame
from transport.framing.websocket import WebSocketFramer, frame_header

LIMIT = 300

payloads = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([b"a" * 125, b"b" * 126, "é".encode() * 100, b"c" * LIMIT, b"d" * (LIMIT + 1)]),
)
masks = st.binary(min_size=4, max_size=4)
data_frames = st.builds(masked_frame, st.sampled_from([0x81, 0x82, 0x01, 0x02, 0x00, 0x80]), payloads, masks)
control_frames = st.builds(masked_frame, st.sampled_from([0x89, 0x8A]), st.binary(max_size=125), masks)
wrong_frames = st.one_of(
    st.builds(masked_frame, st.integers(0, 255), payloads, masks),
    st.builds(lambda first, payload: frame_head(first, len(payload), 0) + payload, st.integers(0, 255), payloads),
)
streams = st.lists(st.one_of(data_frames, data_frames, data_frames, control_frames, wrong_frames), max_size=12).map(
    b"".join
)
legal_texts = st.lists(st.tuples(st.booleans(), st.lists(st.text(max_size=30), min_size=1, max_size=4)))


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream cut at these offsets (modulo its length)."""
    edges = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(edges)]


def read(parts: list[bytes], rooms: list[int] | None = None) -> tuple[list[bytes], list[bytes], int | None]:
    """Messages, control frames and failure code; `rooms` makes it stop and go on as an inbox would."""
    reader, inbox = WebSocketFramer(LIMIT), deque[bytes]()
    counted = 0
    for part in parts:
        counted += reader.read(part, inbox, 10**6 if not rooms else rooms[0])
        turn = 0
        while reader.stopped:
            turn += 1
            assert rooms is not None
            counted += reader.read(b"", inbox, max(1, rooms[turn % len(rooms)]))
    assert counted == sum(map(len, inbox))
    return list(inbox), reader.controls, reader.failure and reader.failure[0]


def read_with_library(stream: bytes) -> tuple[list[bytes], list[bytes], int | None]:
    """What the library makes of the same bytes: messages, masked control frames, code of its Close frame."""
    protocol = ServerProtocol(state=OPEN, max_size=LIMIT)
    protocol.receive_data(stream)
    messages: list[bytes] = []
    controls = []
    message: bytearray | None = None
    text = False
    for frame in protocol.events_received():
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            controls.append(bytes(frame.data))
            continue
        if frame.opcode is Opcode.CLOSE:
            break
        if frame.opcode is not Opcode.CONT:
            message, text = bytearray(), frame.opcode is Opcode.TEXT
        message += frame.data
        if frame.fin:
            if text:
                try:
                    message.decode()
                except UnicodeDecodeError:
                    return messages, controls, 1007
            messages.append(bytes(message))
    return messages, controls, None if protocol.close_sent is None else protocol.close_sent.code


def unmask(frame: bytes) -> bytes:
    mask, payload = frame[2:6], frame[6:]
    return bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


@given(streams, st.lists(st.integers(0, 4000), max_size=8), st.lists(st.integers(0, 3), min_size=1, max_size=3))
@example(masked_frame(0x01, b"\xc3") + masked_frame(0x80, b"\xa9"), [], [1])
@example(masked_frame(0x01, b"\xc3") + masked_frame(0x80, b""), [], [1])
@example(masked_frame(0x02, b"a" * LIMIT) + masked_frame(0x80, b"b"), [], [1])
@example(masked_frame(0x01, b"a") + masked_frame(0x89, b"p") + masked_frame(0x80, b"b"), [], [0])
@example(masked_frame(0x01, b"") + masked_frame(0x00, b"") + masked_frame(0x80, b""), [1, 7, 13], [1])
@examples(150)
def test_agrees_with_the_library(stream: bytes, cuts: list[int], rooms: list[int]) -> None:
    """A rule of RFC 6455 broken here would let a bad client in, or cut a good one off."""
    messages, controls, failure = read(pieces(stream, cuts), rooms)
    expected_messages, expected_controls, expected_failure = read_with_library(stream)
    if any(frame[0] == 0x88 for frame in controls):
        return  # the library stops at a Close; that end is tested on a socket
    if expected_failure == 1009 and failure != 1009:
        return  # the library counts a control frame against what is left of a fragmented message
    got = messages, [unmask(frame) for frame in controls]
    if failure == expected_failure != 1007:
        assert got == (expected_messages, expected_controls)
    else:
        # UTF-8 is judged as it comes in here, at the end of the message there; and of two faults of one frame,
        # its size is the last here.
        assert failure == 1007 or (failure, expected_failure) == (1002, 1009)
        assert got == (expected_messages[: len(got[0])], expected_controls[: len(got[1])])


@given(streams, st.lists(st.integers(0, 4000), max_size=20), st.lists(st.integers(0, 2), min_size=1, max_size=4))
@examples(100)
def test_the_split_does_not_matter(stream: bytes, cuts: list[int], rooms: list[int]) -> None:
    """What a client says must not depend on how the network cuts it, or on when the server has room."""
    assert read(pieces(stream, cuts), rooms) == read([stream])


@given(legal_texts, st.lists(st.integers(0, 4000), max_size=8))
@examples(60)
def test_messages_come_out_as_they_went_in(messages: list[tuple[bool, list[str]]], cuts: list[int]) -> None:
    """No byte of a request is lost or changed, whole or fragmented, cut inside a character or not."""
    stream = b""
    expected = []
    for text, parts in messages:
        whole = "".join(parts).encode()[:LIMIT] if not text else "".join(parts)[: LIMIT // 4].encode()
        expected.append(whole)
        edges = [0, *(min(i * 7, len(whole)) for i in range(1, len(parts))), len(whole)]
        for i, (a, b) in enumerate(pairwise(edges)):
            first = (0 if i else 0x1 if text else 0x2) | (0x80 if i == len(edges) - 2 else 0)
            stream += masked_frame(first, whole[a:b])
    assert read(pieces(stream, cuts)) == (expected, [], None)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x02{}", 1002),  # not masked
        (b"\xc1\x82", 1002),  # reserved bits
        (b"\x83\x80", 1002),
        (b"\x8b\x80", 1002),
        (b"\x80\x82", 1002),  # nothing to continue
        (b"\x09\x80", 1002),  # a Ping in fragments
        (b"\x89\xfe\x00\x7e", 1002),  # a Ping of 126 bytes
        (masked_frame(0x01, b"a") + b"\x81\x80", 1002),
        (frame_head(0x82, LIMIT + 1), 1009),
        (masked_frame(0x02, b"a" * LIMIT) + b"\x00\x81", 1009),
        (frame_head(0x82, 2**63), 1009),
        (masked_frame(0x81, b"\xff"), 1007),
        (masked_frame(0x81, b"\xed\xa0\x80"), 1007),  # a surrogate
        (frame_head(0x81, 200) + b"\0\0\0\0\xff", 1007),  # before the rest of the message comes
    ],
)
def test_fault_is_seen_at_the_header(frame: bytes, code: int) -> None:
    """A client that breaks the rules is told at once, even if it never sends the payload that it announced."""
    assert read([frame])[2] == code
    assert read([frame[i : i + 1] for i in range(len(frame))])[2] == code


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 2**20])
@pytest.mark.parametrize("first", [0x00, 0x01, 0x80, 0x81])
def test_header(first: int, size: int) -> None:
    """The header that a client reads names opcode and length in the shortest form (RFC 6455, 5.2)."""
    assert frame_header(first, size) == frame_head(first, size, masked=0)
