"""Tools as data: name, words, schemas of arguments and results, and the function that carries a call out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from mcp_types import AudioContent, ImageContent, TextContent, ToolAnnotations
from mcp_types import Tool as ToolDescription
from msgspec import Struct

from exec_server.mcp.errors import ToolError

if TYPE_CHECKING:
    from exec_server.mcp.call import Call
    from exec_server.mcp.session import McpSession


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a tool; a misspelled one is an error, not ignored."""


class Answer(Struct, frozen=True):
    """What a call brings: data, the same as text, and pictures. `failed`: the model has to do something about it."""

    result: Struct
    text: str
    images: Sequence[ImageContent] = ()
    failed: bool = False

    @property
    def content(self) -> list[TextContent | ImageContent | AudioContent]:
        """The blocks that a client shows to its model."""
        return [TextContent(text=self.text), *self.images]


class Tool(Struct, frozen=True):
    """One tool of the server."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[Struct]
    annotations: ToolAnnotations
    call: Callable[[McpSession, Any, Call], Awaitable[Answer]]

    def described(self) -> ToolDescription:
        """It as `tools/list` shows it."""
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=schema_of(self.result),
            annotations=self.annotations,
        )

    def parse(self, arguments: Mapping[str, Any] | None) -> Arguments:
        """The arguments of a call. Raises ToolError, which names what is wrong and what is known."""
        given = arguments or {}
        fields = self.arguments.__struct_fields__
        unknown = [name for name in given if name not in fields]
        if unknown:
            raise ToolError(f"{self.name} has no argument {unknown[0]!r}; it has {', '.join(fields)}.")
        try:
            return msgspec.convert(given, self.arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"Invalid arguments of {self.name}: {error}.") from None


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct and those in it, without references, titles and defaults of null."""
    (top,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    schema: dict[str, Any] = _plain(definitions[top["$ref"]], definitions)
    schema.pop("description", None)
    return schema


def _plain(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"]], definitions)
    found = {
        name: {each: _plain(value, definitions) for each, value in member.items()}
        if name == "properties"
        else _plain(member, definitions)
        for name, member in schema.items()
        if not (name == "title" or (name == "default" and member is None))
    }
    found.pop("description", None) if "properties" in found else None
    if "anyOf" in found and all(set(option) <= {"type"} for option in found["anyOf"]):
        found["type"] = [option["type"] for option in found.pop("anyOf")]
    return found
