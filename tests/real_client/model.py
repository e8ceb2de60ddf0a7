"""A model with a script: the Responses API that the client asks, answered step by step by a scenario.

await model.start()
first = await model.asked()                      # the body of the client's first request
second = await model.answer([function_call("exec_command", "c1", cmd="true")])
second.output("c1")                              # what the client says the tool gave
"""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Item = dict[str, Any]
"""One item of a model's answer: a call of a tool, or a message."""

LARGEST_REQUEST = 256 << 20
_USAGE = {
    "input_tokens": 1,
    "input_tokens_details": None,
    "output_tokens": 1,
    "output_tokens_details": None,
    "total_tokens": 2,
}


def function_call(name: str, call_id: str, namespace: str | None = None, **arguments: Any) -> Item:
    """Call a tool with arguments; those of MCP servers have a namespace, `mcp__SERVER`."""
    item = {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
    }
    return item if namespace is None else item | {"namespace": namespace}


def custom_tool_call(name: str, call_id: str, text: str) -> Item:
    """Call a tool that takes free text, as apply_patch does."""
    return {
        "type": "custom_tool_call",
        "id": f"ct_{call_id}",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "input": text,
    }


def message(text: str) -> Item:
    """Say something; an answer of nothing else ends the client's turn."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "id": "msg_1", "content": content}


@dataclass(frozen=True)
class Asked:
    """One request of the client: the whole conversation so far."""

    body: dict[str, Any]

    def output(self, call_id: str) -> Any:
        """What a tool gave, a string or a list of parts; None if the client did not say."""
        for item in reversed(self.body["input"]):
            if item.get("type") in ("function_call_output", "custom_tool_call_output") and item["call_id"] == call_id:
                return item.get("output")
        return None

    def text(self) -> str:
        """All that the model is shown, as JSON with its characters unescaped."""
        return json.dumps(self.body["input"], ensure_ascii=False)


class Model:
    """Serves POST /v1/responses on a free port of 127.0.0.1; one request is open at a time."""

    def __init__(self) -> None:
        self.port = 0
        self._asked: asyncio.Queue[tuple[Asked, asyncio.Future[list[Item]]]] = asyncio.Queue()
        self._open: asyncio.Future[list[Item]] | None = None
        self._count = itertools.count(1)
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_post("/v1/responses", self._respond)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._open is not None:
            self._open.cancel()
        await self._runner.cleanup()

    async def asked(self) -> Asked:
        """The client's next request. It waits for `answer`."""
        asked, self._open = await self._asked.get()
        return asked

    async def answer(self, items: list[Item]) -> Asked:
        """Answer the open request, and wait for the next one."""
        self.answer_last(items)
        return await self.asked()

    def answer_last(self, items: list[Item]) -> None:
        """Answer the open request."""
        assert self._open is not None, "the client has asked nothing"
        if not self._open.done():  # the client may be gone
            self._open.set_result(items)

    async def _respond(self, request: web.Request) -> web.Response:
        raw = await request.read()
        if request.headers.get("content-encoding") == "gzip":
            raw = zlib.decompress(raw, 31)
        answer = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((Asked(json.loads(raw)), answer))
        body = _event_stream(f"resp_{next(self._count)}", await answer)
        return web.Response(body=body, headers={"content-type": "text/event-stream"})


def _event_stream(response_id: str, items: list[Item]) -> bytes:
    """An answer as server-sent events: created, each item, completed."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": response_id}}]
    events += ({"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items))
    events.append({"type": "response.completed", "response": {"id": response_id, "usage": _USAGE}})
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)
