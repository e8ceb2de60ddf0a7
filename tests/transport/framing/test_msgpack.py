"""Maps out of a stream, for any split of the stream."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from transport.framing.msgpack import MessagePackFramer

LIMIT = 60

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=20)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
maps = st.dictionaries(st.text(max_size=3), values, max_size=4).map(msgpack.packb)
odd_maps = st.sampled_from([
    b"\x80", b"\xde\x00\x00", b"\xdf\x00\x00\x00\x00", b"\x81\x01\x02", b"\x81\xa1a\xd4\x05\x00",
    b"\x82\xa1a\x01\xa1a\x02", b"\x81\xa1a" + b"\x91" * 40 + b"\x80", b"\x81\xa1\xff\xc4\x01\xff",
])  # fmt: skip
broken = st.sampled_from([
    b"\x01", b"{}", b"\n", b"\x90", b"\xc0", b"\xa1a", b"\x81\xc1\x01", b"\x81\xa1a\xc1", b"\x81\xa1a",
])  # fmt: skip
streams = st.lists(st.one_of(maps, maps, odd_maps, broken), max_size=10).map(b"".join)


def read(stream: bytes, cuts: list[int], rooms: list[int]) -> tuple[list[bytes], bool]:
    """What a reader gives for a stream that comes in pieces; whether it fails."""
    reader, inbox = MessagePackFramer(LIMIT), deque[bytes]()
    edges = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    counted = 0
    for a, b in pairwise(edges):
        counted += reader.read(stream[a:b], inbox, rooms[0])
        turn = 0
        while reader.stopped:
            turn += 1
            counted += reader.read(b"", inbox, max(1, rooms[turn % len(rooms)]))
    counted += reader.finish(inbox)
    assert counted == sum(map(len, inbox))
    return list(inbox), reader.failure is not None


def expected(stream: bytes) -> tuple[list[bytes], bool]:
    """The same by decoding whole values one after the other."""
    found = []
    while stream:
        unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, object_pairs_hook=lambda pairs: {})
        unpacker.feed(stream)
        try:
            value = unpacker.unpack()
        except (msgpack.UnpackException, ValueError):
            return found, True
        size = unpacker.tell()
        if not isinstance(value, dict) or size > LIMIT:
            return found, True
        found.append(stream[:size])
        stream = stream[size:]
    return found, False


@given(streams, st.lists(st.integers(0, 2000), max_size=12), st.lists(st.integers(0, 3), min_size=1, max_size=4))
@example(b"\x80" * 20, [], [0, 1])
@example(b"\x81\xa1a\xc4" + bytes([LIMIT - 5]) + bytes(LIMIT - 5), [3], [1])
@example(b"\x81\xa1a\xc4" + bytes([LIMIT - 4]) + bytes(LIMIT - 4), [3], [1])
@examples(300)
def test_any_split_gives_the_same_maps(stream: bytes, cuts: list[int], rooms: list[int]) -> None:
    """A request would be lost, doubled or cut because of how the pipe delivered it."""
    assert read(stream, cuts, rooms) == expected(stream)


@pytest.mark.parametrize(
    ("stream", "failure"),
    [
        (b"\x80{", "a message begins with 0x7b, which is no MessagePack map"),
        (b"\x80\x81\xc1", "a message is not MessagePack, or nested too deep"),
        (b"\x80\x81\xa1a" + b"\x91" * 2000, "a message is not MessagePack, or nested too deep"),
        (b"\x80\x81\xa1a\xc6\xff\xff\xff\xff" + bytes(3000), "a message may have 3000 bytes (max_message)"),
        (b"\x80\xdf\xff\xff\xff\xff" + b"\xa0\x00" * 2000, "a message may have 3000 bytes (max_message)"),
        (b"\x80\x81\xa1a", "the input ended within a message"),
    ],
)
def test_what_ends_the_input(stream: bytes, failure: str) -> None:
    """The server would go on somewhere in the middle of a message, and run what it finds there."""
    reader, inbox = MessagePackFramer(3000), deque[bytes]()
    assert reader.read(stream, inbox, 10) + reader.finish(inbox) == 1
    assert list(inbox) == [b"\x80"]
    assert reader.failure == failure
    assert reader.read(b"\x80", inbox, 10) == 0
    assert reader.failure == failure


def test_a_large_message_in_small_pieces() -> None:
    """Each piece would be looked at again with each that follows: minutes instead of a moment."""
    message: Any = msgpack.packb({"a": bytes(8 << 20), "b": list(range(300_000))})
    reader, inbox = MessagePackFramer(), deque[bytes]()
    for at in range(0, len(message), 1024):
        reader.read(message[at : at + 1024], inbox, 1)
    assert list(inbox) == [message]
