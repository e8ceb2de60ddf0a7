"""What a server sends, a client reads; and the other way round. In both encodings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import errors
from protocol.client_codec import JSON_CLIENT, MSGPACK_CLIENT, ClientCodec
from protocol.codec import JSON, MSGPACK, Codec
from protocol.envelope import ErrorResponse, Notification, Request, Response
from protocol.errors import ExecServerError, ParseError, received_error
from protocol.methods import METHODS
from protocol.session import Initialized
from tests.properties.test_encodings import NOTIFICATIONS, PARAMS, RESULTS, structs
from tests.support.examples import examples

ENDS: list[tuple[Codec, ClientCodec]] = [(JSON, JSON_CLIENT), (MSGPACK, MSGPACK_CLIENT)]


@given(PARAMS, st.integers(1, 2**62))
@examples(200)
def test_a_server_reads_what_a_client_asks(named: tuple[str, Any], id: int) -> None:
    name, params = named
    for server, client in ENDS:
        message = server.decode(client.encode_request(id, params))
        assert isinstance(message, Request)
        assert (message.id, message.method) == (id, name)
        assert server.decode_params(METHODS[name], message.params) == params


@given(RESULTS, st.integers(1, 2**62))
@examples(200)
def test_a_client_reads_results(result: Any, id: int) -> None:
    for server, client in ENDS:
        message = client.decode(server.encode_result(id, result))
        assert isinstance(message, Response)
        assert message.id == id
        assert client.decode_result(type(result), message.result) == result


@given(st.one_of([structs(kind) for kind in NOTIFICATIONS]))
@examples(200)
def test_a_client_reads_notifications(notification: Any) -> None:
    for server, client in ENDS:
        assert client.decode(server.encode_notification(notification)) == notification


ERRORS: list[ExecServerError] = [
    errors.UnknownProcess("p"),
    errors.ProcessExists("p"),
    errors.MethodNotFound("m"),
    errors.InvalidParams("text", {"kind": "offsetAhead", "acceptedBytes": 3}),
    errors.NotFound("text"),
    errors.SessionAttached("s"),
    errors.SpawnError("spawnNotFound", "text", "program", path="/x"),
    errors.Busy("text"),
    errors.ActorLost("text"),
    errors.InternalError("text"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_as_what_it_was(error: ExecServerError) -> None:
    """Lost: `except SpawnError`, and all others by which a program decides."""
    for server, client in ENDS:
        message = client.decode(server.encode_error(1, error))
        assert isinstance(message, ErrorResponse)
        received = client.decode_error(message)
        assert (type(received), received.message, received.data) == (type(error), error.message, error.data)
        assert received.code == error.code


def test_errors_of_servers_to_come() -> None:
    """A kind that is not known counts as none, and a code that is not known stays visible."""
    assert type(received_error(-32602, "m", {"kind": "new"})) is errors.InvalidParams
    assert type(received_error(-32602, "m", {"kind": "busy"})) is errors.InvalidParams
    assert type(received_error(-32603, "m", ["no object"])) is errors.InternalError
    strange = received_error(-31999, "m")
    assert (type(strange), strange.code, ExecServerError.code) == (ExecServerError, -31999, -32603)


def test_initialized_is_understood() -> None:
    for server, client in ENDS:
        message = server.decode(client.encode_notification(Initialized()))
        assert isinstance(message, Notification)
        assert message.method == "initialized"


def test_what_is_not_known_is_ignored_and_what_is_wrong_is_refused() -> None:
    """New notifications must not end old clients; and no client goes on with events that it did not understand."""
    for client, encode in ((JSON_CLIENT, msgspec.json.encode), (MSGPACK_CLIENT, msgspec.msgpack.encode)):
        assert client.decode(encode({"method": "process/new", "params": {}})) is None
        assert client.decode(encode({"method": "ping", "id": 1})) is None
        for wrong in ([], {"id": 1}, {"method": "process/closed"}, {"method": "process/closed", "params": {"seq": 1}}):
            with pytest.raises(ParseError):
                client.decode(encode(wrong))
        with pytest.raises(ParseError):
            client.decode(b"\xc1")
        answer = client.decode(encode({"id": 1, "result": {"processes": 1}}))
        assert isinstance(answer, Response)
        with pytest.raises(ParseError, match="no ProcessListResult: invalid `processes`"):
            client.decode_result(METHODS["process/list"].RESULT, answer.result)
