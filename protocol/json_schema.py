"""A JSON Schema (draft 2020-12) of every message of the wire in JSON, made from the Structs that the server uses.

It says shapes, types and ranges. What holds between members, or of values that the system knows (names of signals),
docs/protocol.md says. Unknown members are valid, as they are on the wire.
"""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec

from protocol.envelope import Trace
from protocol.filesystem import MissingChanged
from protocol.http import HttpBodyDelta
from protocol.methods import METHODS
from protocol.process import ProcessNotification
from protocol.requests import AnyParams, NoParams
from protocol.session import PROTOCOL_VERSION, Initialized
from protocol.wire_types import NAME_CHARACTERS, NotificationParams

Schema = dict[str, Any]

NOTIFICATIONS: tuple[type[NotificationParams], ...] = (*get_args(ProcessNotification), MissingChanged, HttpBodyDelta)
"""What a server sends without being asked; the name of the method is in `METHOD`."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"
_ID: Schema = {
    "anyOf": [
        {"type": "string", "maxLength": NAME_CHARACTERS},
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    ]
}


def definition(method: str, what: str) -> str:
    """The name in `$defs` of the `Request`, `Response` or `Notification` of a method: `ProcessReadResponse`."""
    words = re.split(r"[/_]", method)
    return "".join(word[:1].upper() + word[1:] for word in words) + what


def message_schema() -> Schema:
    """The whole schema. A value is valid against it if a client or a server may send it.

    An answer does not say what it answers; whoever knows checks it against `definition(method, "Response")`.
    """
    types: list[type[msgspec.Struct]] = [type for method in METHODS.values() for type in (method, method.RESULT)]
    types += [*NOTIFICATIONS, Trace]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    definitions: Schema = {name: _shape(component) for name, component in components.items()}
    for method in METHODS.values():
        definitions[definition(method.METHOD, "Request")] = _request(method)
        definitions[definition(method.METHOD, "Response")] = _response(_ref(method.RESULT.__name__))
    definitions[definition(Initialized.METHOD, "Notification")] = _message({"method": {"const": Initialized.METHOD}})
    for kind in NOTIFICATIONS:
        definitions[definition(kind.METHOD, "Notification")] = _notification(kind)
    definitions["Response"] = _response({"type": "object"})
    definitions["ErrorResponse"] = _error_response()
    definitions["ClientMessage"] = _any_of(
        *(definition(name, "Request") for name in METHODS), definition(Initialized.METHOD, "Notification")
    )
    definitions["ServerMessage"] = _any_of(
        "Response", "ErrorResponse", *(definition(kind.METHOD, "Notification") for kind in NOTIFICATIONS)
    )
    return {
        "$schema": DIALECT,
        "$id": f"urn:{PROTOCOL_VERSION.replace('.', ':')}",
        "title": f"Messages of {PROTOCOL_VERSION}, in JSON",
        **_any_of("ClientMessage", "ServerMessage"),
        "$defs": definitions,
    }


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(name=name)}


def _any_of(*names: str) -> Schema:
    return {"anyOf": [_ref(name) for name in names]}


def _message(members: Schema, *optional: str) -> Schema:
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required}


def _request(method: AnyParams) -> Schema:
    params = _ref(method.__name__)
    trace = {"anyOf": [_ref(Trace.__name__), {"type": "null"}]}
    if issubclass(method, NoParams):
        params = {"anyOf": [params, {"type": "null"}]}
    members = {"id": _ID, "method": {"const": method.METHOD}, "params": params, "trace": trace}
    return _message(members, "trace", *(["params"] if issubclass(method, NoParams) else []))


def _response(result: Schema) -> Schema:
    return _message({"id": _ID, "result": result})


def _notification(kind: type[NotificationParams]) -> Schema:
    return _message({"method": {"const": kind.METHOD}, "params": _ref(kind.__name__)})


def _error_response() -> Schema:
    data = {"type": "object", "properties": {"kind": {"type": "string"}}}
    error = _message({"code": {"type": "integer"}, "data": data, "message": {"type": "string"}}, "data")
    return _message({"error": error, "id": _ID})


def _shape(component: Schema) -> Schema:
    """Without the docstring, which speaks to readers of the source."""
    return {key: value for key, value in component.items() if key != "description"}
