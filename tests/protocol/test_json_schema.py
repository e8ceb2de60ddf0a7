"""`exec-server schema` accepts what the wire accepts, and finds what is wrong."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from protocol.json_schema import definition, message_schema
from protocol.methods import METHODS
from tests.protocol.golden_frames import ALL, Golden

SCHEMA = message_schema()
WHAT = {"requests": "Request", "results": "Response", "notifications": "Notification"}


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """For any message, or for one definition."""
    return Draft202012Validator({**SCHEMA, **({"anyOf": [{"$ref": f"#/$defs/{name}"}]} if name else {})})


def valid(message: Any, name: str = "") -> bool:
    return bool(validator(name).is_valid(message))


def test_the_program_prints_the_schema() -> None:
    printed = subprocess.run([sys.executable, "-m", "exec_server", "schema"], capture_output=True, check=True).stdout
    assert json.loads(printed) == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("golden", ALL, ids=str)
def test_golden_frames_are_valid(golden: Golden) -> None:
    name = "ErrorResponse" if golden.kind == "errors" else definition(golden.method, WHAT[golden.kind])
    message = json.loads(golden.frame)
    assert valid(message, name) and valid(message)


@pytest.mark.parametrize("golden", [each for each in ALL if each.variant == "full"], ids=str)
def test_a_member_of_the_wrong_type_is_found(golden: Golden) -> None:
    """A schema that lets everything pass is of no use."""
    name = "ErrorResponse" if golden.kind == "errors" else definition(golden.method, WHAT[golden.kind])
    message = json.loads(golden.frame)
    part = {"requests": "params", "results": "result", "notifications": "params", "errors": "error"}[golden.kind]
    for member in message[part]:
        for wrong in (3.5, [None]):
            broken = {**message, part: {**message[part], member: wrong}}
            assert not valid(broken, name), member
    assert golden.method == "initialized" or not valid({**message, part: []}, name)
    if golden.kind != "notifications":
        assert not valid({**message, "id": 1.5}, name)


def test_every_method_is_in_it() -> None:
    for method in METHODS:
        assert not valid({"id": 1, "method": method, "params": 5}, "ClientMessage")
        assert definition(method, "Response") in SCHEMA["$defs"]


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        {"id": 1, "method": "process/rename", "params": {}},
        {"id": None, "method": "environment/status"},
        {"method": "process/read", "params": {"processId": "p"}},
        {"id": 1, "method": "process/read", "params": {}},
        {"id": 1, "method": "process/read", "params": {"processId": "p", "waitMs": -1}},
        {"id": 1, "method": "process/resize", "params": {"processId": "p", "rows": 0, "cols": 80}},
        {"id": 1, "method": "environment/info", "params": {"verbose": True}},
        {"error": {"code": "-32600", "message": ""}, "id": 1},
    ],
    ids=str,
)
def test_what_is_no_message_is_found(message: Any) -> None:
    assert not valid(message)


def test_unknown_members_are_valid() -> None:
    """The wire grows by new members; a schema that refused them would break with each."""
    message = {"id": 1, "method": "process/read", "params": {"processId": "p", "new": 1}, "new": 2}
    assert valid(message, "ProcessReadRequest")
