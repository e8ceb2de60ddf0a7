"""What tools take and give: definitions and calls of a model, results as items for it. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

MAX_ARGUMENTS_BYTES = 4 << 20

Arguments = str | bytes | Mapping[str, Any]
"""The arguments of a call: JSON as a model writes it, or what a library has made of that."""
Options = TypeVar("Options", bound=Struct)


class ToolCall(Struct, frozen=True):
    """A call that is about to be carried out."""

    name: str
    arguments: Mapping[str, Any]
    call_id: str


Before = Callable[[ToolCall], Awaitable[str | None]]
"""Asked before each call; what it returns, unless None, is the refusal that the model reads."""


class ToolResult(Struct, frozen=True):
    """What a model is told of a call: text, and pictures as `input_image` items. `success` is false for a call that
    could not be carried out; a command that fails was carried out.
    """

    text: str
    success: bool
    images: tuple[dict[str, str], ...] = ()

    def output(self) -> str | list[dict[str, str]]:
        """The text, or with pictures the list of content items."""
        if not self.images:
            return self.text
        texts = [{"type": "input_text", "text": self.text}] if self.text else []
        return [*texts, *self.images]

    def item(self, call_id: str) -> dict[str, Any]:
        """The item of a conversation that answers the call."""
        return {"type": "function_call_output", "call_id": call_id, "output": self.output()}


def failed(text: str) -> ToolResult:
    """The result of a call that could not be carried out. What is no character in `text` becomes U+FFFD."""
    return ToolResult(printable_text(text), False)


def printable_text(text: str) -> str:
    """Text that can be encoded: lone surrogates become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def definition(name: str, description: str, options: type[Struct]) -> dict[str, Any]:
    """The definition of a tool for a model; `parameters` is the JSON Schema of `options`."""
    _, components = msgspec.json.schema_components([options])
    schema = {member: value for member, value in components[options.__name__].items() if member != "title"}
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def parsed(arguments: Arguments, options: type[Options]) -> Options:
    """The arguments of a call. Raises ValueError for what does not fit, with the member."""
    try:
        if isinstance(arguments, Mapping):
            return msgspec.convert(dict(arguments), options)
        size = len(arguments)
        if size > MAX_ARGUMENTS_BYTES:
            raise ValueError(f"they have {size} bytes, more than {MAX_ARGUMENTS_BYTES}")
        return msgspec.json.decode(arguments, type=options)
    except msgspec.MsgspecError as error:
        raise ValueError(_in_words(str(error))) from None
    except RecursionError:
        raise ValueError("their values are nested too deeply") from None
    except UnicodeError:
        raise ValueError("they are not UTF-8") from None


def given(options: Struct) -> dict[str, Any]:
    """Arguments as a dict, those that have their defaults left out."""
    defaults = dict(zip(options.__struct_fields__[::-1], options.__struct_defaults__[::-1], strict=False))
    values = msgspec.structs.asdict(options)
    return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}


def _in_words(error: str) -> str:
    return error.replace(" - at `$.", " at `").replace(" - at `$`", "")
