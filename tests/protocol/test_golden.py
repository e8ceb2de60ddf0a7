"""Clients of every release that is out still understand this server, and it them: its frames never change."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import msgspec
import pytest

from protocol.codec import JSON, MSGPACK
from protocol.envelope import ErrorResponse, Notification, Request, Response
from protocol.methods import METHODS
from protocol.process import ProcessStartParams
from protocol.session import Initialized
from tests.protocol.golden_frames import ALL, CURRENT, KINDS, RELEASES, Golden, load, meaning, packed


def of(*kinds: str) -> list[Any]:
    return [pytest.param(each, id=str(each)) for each in ALL if each.kind in kinds]


def same(today: bytes, golden: bytes, release: str) -> None:
    """What is encoded today is the frame, byte for byte; that of an older release may have got members since."""
    if release != CURRENT:
        today = compact(without_new(json.loads(today), json.loads(golden)))
    assert today == golden


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def without_new(today: Any, golden: Any) -> Any:
    """Only the members that the frame has, in today's order."""
    if isinstance(today, dict) and isinstance(golden, dict):
        return {key: without_new(value, golden[key]) for key, value in today.items() if key in golden}
    if isinstance(today, list) and isinstance(golden, list) and len(today) == len(golden):
        return list(map(without_new, today, golden))
    return today


@pytest.mark.parametrize("golden", of("requests"))
def test_requests_mean_what_they_meant(golden: Golden) -> None:
    """A member that is renamed, or a default that changes, is another request than the client sent."""
    request = JSON.decode(golden.frame)
    assert isinstance(request, Request)
    assert (request.id, request.method) == (7 if golden.variant == "full" else "7", golden.method)
    params = JSON.decode_params(METHODS[golden.method], request.params)
    expected = bytes(request.params or b"") if golden.means is None else golden.means.encode()
    same(msgspec.json.encode(params), expected, golden.release)


@pytest.mark.parametrize("golden", of("results"))
def test_results_are_written_as_they_were(golden: Golden) -> None:
    answer = JSON.decode(golden.frame)
    assert isinstance(answer, Response)
    result = msgspec.json.decode(answer.result, type=METHODS[golden.method].RESULT)
    same(JSON.encode_result(answer.id, result), golden.frame, golden.release)
    same(b"".join(JSON.encode_result_pieces(answer.id, result)), golden.frame, golden.release)


@pytest.mark.parametrize("golden", of("notifications"))
def test_notifications_are_written_as_they_were(golden: Golden) -> None:
    notification = JSON.decode(golden.frame)
    assert isinstance(notification, Notification) and notification.method == golden.method
    if golden.method != Initialized.METHOD:
        event = msgspec.json.decode(notification.params or b"", type=KINDS[golden.method])
        same(JSON.encode_notification(event), golden.frame, golden.release)


@pytest.mark.parametrize("golden", of("errors"))
def test_errors_are_written_as_they_were(golden: Golden) -> None:
    answer = JSON.decode(golden.frame)
    assert isinstance(answer, ErrorResponse)
    same(JSON.encode_error(answer.id, meaning(golden)), golden.frame, golden.release)


@pytest.mark.parametrize("golden", of("requests", "results", "notifications", "errors"))
def test_the_same_in_messagepack(golden: Golden) -> None:
    """Who speaks MessagePack is owed the same as who speaks JSON."""
    if golden.packed is None:
        assert golden.release != CURRENT, "`python -m tests.protocol.golden_frames` adds the frames that are missing"
        return
    if golden.kind == "requests":
        request = MSGPACK.decode(golden.packed)
        assert isinstance(request, Request) and request.method == golden.method
        params, meant = MSGPACK.decode_params(METHODS[golden.method], request.params), meaning(golden)
        if (
            isinstance(params, ProcessStartParams) and params.network_proxy is not None
        ):  # in the encoding that it came in
            proxies = msgspec.msgpack.decode(params.network_proxy.proxy), json.loads(bytes(meant.network_proxy.proxy))
            assert proxies[0] == proxies[1]
            params, meant = (msgspec.structs.replace(each, network_proxy=None) for each in (params, meant))
        assert params == meant
    elif golden.release == CURRENT:
        assert packed(golden) == golden.packed
    else:
        assert without_new(msgpack.unpackb(packed(golden)), msgpack.unpackb(golden.packed)) == msgpack.unpackb(
            golden.packed
        )


@pytest.mark.parametrize("release", RELEASES)
def test_every_frame_of_a_release_is_still_known(release: str) -> None:
    """A method or notification that is gone breaks whoever uses it."""
    golden = load(release)
    assert set(golden["requests"]) == set(golden["results"]) <= set(METHODS)
    assert set(golden["notifications"]) <= {*KINDS, Initialized.METHOD}


def test_the_current_release_has_every_method_and_every_member() -> None:
    """What has no golden frame may change without anybody noticing."""
    golden = load(CURRENT)
    assert set(golden["requests"]) == set(golden["results"]) == set(METHODS)
    assert set(golden["notifications"]) == {*KINDS, Initialized.METHOD}
    for name, method in METHODS.items():
        assert members(golden["requests"][name]["full"], "params") == names(method), name
        assert members(golden["results"][name]["full"], "result") == names(method.RESULT), name
    for name, kind in KINDS.items():
        assert members(golden["notifications"][name]["full"], "params") == names(kind), name


def members(frame: str, part: str) -> list[str]:
    return list(json.loads(frame)[part])


def names(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def test_a_change_of_an_older_release_would_be_seen() -> None:
    """New members are no change; renamed and reordered ones are."""
    same(b'{"a":1,"new":0,"b":[{"c":2,"new":0}]}', b'{"a":1,"b":[{"c":2}]}', "0.0")
    for today in (b'{"A":1,"b":[]}', b'{"b":[],"a":1}', b'{"a":1,"b":[0]}', b'{"a":1}'):
        with pytest.raises(AssertionError):
            same(today, b'{"a":1,"b":[]}', "0.0")
