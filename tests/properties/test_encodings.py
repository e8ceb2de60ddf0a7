"""Both encodings for all messages: what goes in comes out, and is the same on either."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from msgspec import inspect

from protocol import msgpack_strict
from protocol.codec import JSON, MSGPACK, Codec
from protocol.envelope import Notification, Request, Response
from protocol.errors import InvalidParams, ParseError
from protocol.json_strict import MAX_DEPTH, StrictnessError
from protocol.methods import METHODS
from protocol.process import (
    NetworkProxy,
    ProcessAttachParams,
    ProcessClosed,
    ProcessExited,
    ProcessGap,
    ProcessOutput,
    ProcessSignalParams,
    ProcessWriteResult,
)
from tests.support.examples import examples

WIRES: list[tuple[Codec, Any, Any]] = [
    (JSON, msgspec.json.encode, msgspec.json.decode),
    (MSGPACK, msgspec.msgpack.encode, msgspec.msgpack.decode),
]
"""A codec, and msgspec's own ways into its encoding and out of it."""
IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))
NOTIFICATIONS = [ProcessOutput, ProcessExited, ProcessClosed, ProcessGap]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
TEXT = st.text(max_size=40)
BYTES = st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=9).map(lambda data: data * 300))


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """All values of a member's type, small ones."""
    match kind:
        case inspect.StructType():
            return structs(kind.cls)
        case inspect.UnionType():
            return st.one_of([values(each) for each in kind.types])
        case inspect.IntType():
            least = -(2**63) if kind.ge is None else kind.ge
            return st.integers(least, 2**64 - 1 if kind.le is None else kind.le)
        case inspect.ListType():
            return st.lists(values(kind.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=3)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
    simple = {
        inspect.StrType: TEXT,
        inspect.BytesType: BYTES,
        inspect.BoolType: st.booleans(),
        inspect.NoneType: st.none(),
        inspect.UUIDType: st.uuids(),
        inspect.AnyType: ANYTHING,
    }
    return simple[type(kind)]


SPECIAL: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
    ProcessSignalParams: {"signal": st.sampled_from(["interrupt", "SIGTERM", "SIGKILL"])},
    ProcessAttachParams: {"observe_id": TEXT},
    NetworkProxy: {"proxy": st.sampled_from([msgspec.Raw(b"%d" % digit) for digit in range(10)])},  # one byte is both
}


@cache
def structs(kind: Any) -> st.SearchStrategy[Any]:
    """All Structs of a type that its own checks let pass."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    special = SPECIAL.get(kind, {})
    members = {field.name: values(field.type) for field in info.fields if field.name not in special} | special
    required = {name: members.pop(name) for name in [f.name for f in info.fields if f.required]}

    def build(chosen: dict[str, Any]) -> Any:
        if kind is ProcessWriteResult:
            chosen["accepted"] = chosen["status"] == "accepted"
        try:
            return kind(**chosen)
        except ValueError:
            reject()

    return st.fixed_dictionaries(required, optional=members).map(build)


PARAMS = st.sampled_from(sorted(METHODS)).flatmap(lambda name: st.tuples(st.just(name), structs(METHODS[name])))
RESULTS = st.sampled_from(sorted(METHODS)).flatmap(lambda name: structs(METHODS[name].RESULT))


@given(PARAMS, IDS)
@examples(400)
def test_requests_are_the_same_in_both(named: tuple[str, Any], id: Any) -> None:
    """A request would be carried out with other params than were sent, on one of the encodings."""
    name, params = named
    for codec, encode, _ in WIRES:
        message = codec.decode(encode({"id": id, "method": name, "params": params}))
        assert isinstance(message, Request)
        assert (message.id, type(message.id), message.method) == (id, type(id), name)
        assert codec.decode_params(METHODS[name], message.params) == params


@given(RESULTS, IDS)
@examples(300)
def test_results_are_the_same_in_both(result: Any, id: Any) -> None:
    """A client would read another answer than was given, whole or in pieces."""
    for codec, _, decode in WIRES:
        whole = codec.encode_result(id, result)
        assert b"".join(codec.encode_result_pieces(id, result)) == whole
        message = codec.decode(whole)
        assert isinstance(message, Response)
        assert (message.id, type(message.id)) == (id, type(id))
        assert decode(message.result, type=type(result)) == result


@given(st.one_of([structs(kind) for kind in NOTIFICATIONS]))
@examples(300)
def test_notifications_are_the_same_in_both(notification: Any) -> None:
    """A client would hear another event than there was."""
    for codec, _, decode in WIRES:
        message = codec.decode(codec.encode_notification(notification))
        assert isinstance(message, Notification)
        assert message.method == notification.METHOD
        assert message.params is not None
        assert decode(message.params, type=type(notification)) == notification


# -- what is no message -------------------------------------------------------------------------------------------

HEADS = [bytes((head,)) for head in range(256)]
PIECES = st.lists(
    st.one_of(
        st.sampled_from([
            b"\x81\xa1a", b"\x82\xa1a", b"\x83\xa2id\x01\xa6method\xa1m\xa6params", b"\x91", b"\x92", b"\x90", b"\x80",
            b"\xa1a", b"\xa1b", b"\xa2id", b"\xa6method", b"\xa6params", b"\xd9\x01a", b"\xda\x00\x01a", b"\xa1\xff",
            b"\xa2\xc3\xa9", b"\x01", b"\xc0", b"\xc4\x01\xff", b"\xc5\x00\x01a", b"\xcb\x7f\xf0\0\0\0\0\0\0",
            b"\xca\x3f\x80\0\0", b"\xd4\x05\x00", b"\xd6\xff\0\0\0\0", b"\xde\x00\x01", b"\xdc\x00\x02",
            b"\xdf\0\0\0\x01",
        ]),
        st.sampled_from(HEADS),
        st.binary(max_size=3),
    ),
    max_size=14,
).map(b"".join)  # fmt: skip


class Pairs(list[Any]):
    """A map as its members, so that a key may be there twice."""


def is_strict(message: bytes) -> bool:
    """The rules of msgpack_strict, with another library to read."""
    try:
        return sound(msgpack.unpackb(message, object_pairs_hook=Pairs, strict_map_key=False), 0)
    except (msgpack.UnpackException, ValueError):
        return False


def sound(value: Any, depth: int) -> bool:
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
            return False
        return depth < MAX_DEPTH and all(sound(each, depth + 1) for _, each in value)
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(sound(each, depth + 1) for each in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, msgpack.ExtType | msgpack.Timestamp)


REQUEST = b"\x83\xa2id\x01\xa6method\xa1m\xa6params"


@given(PIECES)
@example(b"\x82\xa1a\x01\xd9\x01a\x02")
@example(b"\x81\xa1a\xa3\xed\xa0\x80")
@example(b"\x81\xa3\xed\xa0\x80\xa1a")
@example(b"\x81\xa1a\xcb\x7f\xf0\0\0\0\0\0\0")
@examples(1000)
def test_the_scan_refuses_what_it_must_and_nothing_else(message: bytes) -> None:
    """Two readers of one message could see different values; or a good message would be refused."""
    try:
        msgpack_strict.check(message)
    except StrictnessError:
        assert not is_strict(message)
    else:
        assert is_strict(message)
    try:
        MSGPACK.decode(REQUEST + message)
    except ParseError:
        assert not is_strict(REQUEST + message)
    else:
        assert is_strict(REQUEST + message)


@given(st.one_of(st.binary(max_size=60), PIECES, PIECES.map(lambda tail: REQUEST + tail)))
@examples(500)
def test_any_bytes_are_a_message_or_a_parse_error(message: bytes) -> None:
    """One frame could take down a connection, or the loop with all of them."""
    try:
        MSGPACK.decode(message)
    except ParseError as error:
        assert error.message


@given(PARAMS, st.data())
def test_a_message_that_is_cut_or_changed_is_no_crash(named: tuple[str, Any], data: st.DataObject) -> None:
    """As for any bytes, but nearer to what gets past the first checks."""
    name, params = named
    whole = bytearray(msgspec.msgpack.encode({"id": 1, "method": name, "params": params}))
    with pytest.raises(ParseError):
        MSGPACK.decode(bytes(whole[: data.draw(st.integers(0, len(whole) - 1))]))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = MSGPACK.decode(bytes(whole))
        if isinstance(message, Request) and message.method in METHODS:
            MSGPACK.decode_params(METHODS[message.method], message.params)
    except (ParseError, InvalidParams) as error:
        assert error.message


@given(st.sampled_from(sorted(METHODS)), ANYTHING)
def test_any_params_are_judged_alike(name: str, document: Any) -> None:
    """A client could do on one encoding what it cannot on the other. No member of these is bytes, on either."""
    verdicts = []
    for codec, encode, _ in WIRES:
        raw = None if document is None else msgspec.Raw(encode(document))
        try:
            verdicts.append(codec.decode_params(METHODS[name], raw))
        except InvalidParams as error:
            verdicts.append(error.message)
    assert verdicts[0] == verdicts[1]
