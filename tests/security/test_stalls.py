"""Stalls: each method with the largest that each of its members may be, one at a time, and what that costs the loop.

The table is made of the JSON Schema, so that a new member is in it by itself. What counts is the CPU time of the thread
in one handler of an actor: whatever a client sends, all others wait for that, and for nothing longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.json_schema import message_schema
from protocol.methods import METHODS
from protocol.session import InitializeParams
from tests.support.client import PATIENCE_S, RpcError, connected, session
from tests.support.embedded import embedded

pytestmark = pytest.mark.anyio

DEFINITIONS = message_schema()["$defs"]
NOWHERE = "/proc/none"
"""Every text begins so: what is taken for a path or a program is not there, and can neither be made nor removed."""
FILLERS = ("/.", "*?", '\\"', "é")
LARGE = 4 << 20
"""Bytes, about, of a member that the schema does not bound; and of a list, whatever its elements."""
BOUND_S = 1.0
"""CPU seconds of one handler. On a quiet machine the slowest takes a fifth of that, on a busy one a third; what is not
linear takes many."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = DEFINITIONS[schema["$ref"].rpartition("/")[2]]
    return schema


def choices(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What a member may be, but null."""
    schema = resolved(schema)
    return [
        found for each in schema.get("anyOf", [schema]) for found in [resolved(each)] if found.get("type") != "null"
    ]


def least(schema: dict[str, Any]) -> Any:
    """A small value."""
    schema = choices(schema)[0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: least(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [least(schema["items"])] * schema.get("minItems", 1) if "items" in schema else []
        case "string":
            return "" if "contentEncoding" in schema else NOWHERE
        case "integer":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
    return None


def largest(schema: dict[str, Any], depth: int = 0) -> Iterator[Any]:
    """Values of which one part is as large as it may be, each part in turn."""
    for choice in choices(schema):
        match choice.get("type"):
            case "object" if "properties" in choice:
                if depth < 6:
                    small = least(choice)
                    for name, member in choice["properties"].items():
                        yield from ({**small, name: value} for value in largest(member, depth + 1))
            case "object":
                value = least(choice.get("additionalProperties") or {})
                count = choice.get("maxProperties", 50_000)
                yield {f"v{number}": value for number in range(count)}
            case "array":
                yield from lists(choice, depth)
            case "string" if "contentEncoding" in choice:
                yield "AAAA" * (LARGE // 4)
                yield "A\\n" * (LARGE // 4)
            case "string" if "enum" not in choice and "const" not in choice:
                size = choice.get("maxLength", LARGE)
                for filler in FILLERS:
                    yield (NOWHERE + filler * (size // len(filler)))[:size]
            case "integer":
                yield choice.get("maximum", 2**62)
            case None if not {"const", "enum"} & choice.keys():
                yield [1.5] * (LARGE // 4)
                yield {f"k{number}": [{}] for number in range(40_000)}  # nearly as many tokens as are allowed


def lists(schema: dict[str, Any], depth: int) -> Iterator[Any]:
    """Of as many as are allowed: small ones, and each of the large ones."""
    items, count = schema.get("items", {}), schema.get("maxItems", 100_000)
    yield [least(items)] * count
    for value in largest(items, depth + 1):
        yield [value] * min(count, max(1, LARGE // len(repr(value))))


def params_of(method: str) -> Iterator[dict[str, Any]]:
    return largest(DEFINITIONS[METHODS[method].__name__])


class Slowest:
    """The handler of the engine that has taken most CPU time."""

    def __init__(self, server: Any) -> None:
        self.seconds, self.what = 0.0, ""
        turns = server._engine.turns
        self._deliver, turns._deliver = turns._deliver, self._timed

    def _timed(self, cell: Any, message: Any, sender: Any) -> None:
        before = time.thread_time()
        self._deliver(cell, message, sender)
        seconds = time.thread_time() - before
        if seconds > self.seconds:
            self.seconds, self.what = seconds, f"{cell.class_name} over {type(message).__name__}"


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if kind is not InitializeParams])
async def test_the_largest_of_each_member_holds_up_nobody(method: str) -> None:
    """Lost: everybody's work, for as long as one crafted request takes."""
    async with embedded() as (server, url), session(url) as client:
        slowest = Slowest(server)
        for params in params_of(method):
            slowest.seconds = 0.0
            async with asyncio.timeout(PATIENCE_S):
                try:
                    await client.call(method, **{**params, **({"waitMs": 0} if "waitMs" in params else {})})
                except RpcError:
                    pass  # refused is as good as answered
            part = max(params, key=lambda name: len(repr(params[name])), default="")
            assert slowest.seconds < BOUND_S, f"`{part}` took {slowest.what} {slowest.seconds:.3f} s"


async def test_the_largest_initialize_holds_up_nobody() -> None:
    """Lost: everybody's work, to whoever may connect."""
    async with embedded() as (server, url):
        slowest = Slowest(server)
        for params in params_of("initialize"):
            async with connected(url) as client:
                try:
                    await client.call("initialize", **params)
                except RpcError:
                    pass
        assert slowest.seconds < BOUND_S, f"{slowest.what} {slowest.seconds:.3f} s"
