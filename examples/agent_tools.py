"""Agent's tools: the two calls of unified exec as functions that a language model calls, and the loop around them.

    python -m examples.agent_tools [URL]

What the model says is scripted here; `model` is the place for one that thinks.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import exec_server

TOOLS = [
    {
        "name": "exec_command",
        "description": "Run a shell command. Returns its output, and its exit code or, if it goes on, a process_id.",
        "parameters": {
            "type": "object",
            "properties": {
                "cmd": {"type": "string"},
                "workdir": {"type": "string"},
                "tty": {"type": "boolean", "description": "Give it a terminal, for what asks questions."},
                "yield_time_ms": {"type": "integer", "description": "How long to wait for output."},
                "max_output_tokens": {"type": "integer"},
            },
            "required": ["cmd"],
        },
    },
    {
        "name": "write_stdin",
        "description": "Type into a running command, or look again what it has printed.",
        "parameters": {
            "type": "object",
            "properties": {
                "process_id": {"type": "integer"},
                "chars": {"type": "string"},
                "yield_time_ms": {"type": "integer"},
            },
            "required": ["process_id"],
        },
    },
]
"""As most interfaces of models take them."""

SCRIPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("exec_command", {"cmd": "printf 'one\\ntwo\\n' | wc -l"}),
    ("exec_command", {"cmd": "printf 'Sure? '; read answer; echo you said $answer", "tty": True, "yield_time_ms": 500}),
    ("write_stdin", {"process_id": 1001, "chars": "yes\n", "yield_time_ms": 5000}),
    ("exec_command", {"cmd": "seq 1000000", "max_output_tokens": 10}),
    ("write_stdin", {"process_id": 7, "chars": "?"}),
)


def model() -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of a model, one after the other."""
    yield from SCRIPT


async def answer(commands: exec_server.UnifiedExec, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry out a call. Whatever goes wrong is an answer, too: the model can do something about it."""
    try:
        if tool == "exec_command":
            snapshot = await commands.exec_command(**arguments)
        elif tool == "write_stdin":
            snapshot = await commands.write_stdin(**arguments)
        else:
            return {"error": f"there is no tool {tool}"}
    except Exception as error:
        return {"error": str(error)}
    told = {"output": snapshot.output, "exit_code": snapshot.exit_code, "process_id": snapshot.process_id}
    return {name: value for name, value in told.items() if value is not None}


async def main(url: str) -> None:
    """Answer what the model asks for until it asks no more."""
    async with (
        exec_server.Environment.create(url) as environment,
        exec_server.UnifiedExec(environment, consecutive_ids=True) as commands,
    ):
        for tool, arguments in model():
            print(">", tool, json.dumps(arguments))
            print("<", json.dumps(await answer(commands, tool, arguments), ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "local"))
