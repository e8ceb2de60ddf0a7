"""Two servers of the Model Context Protocol with one tool each: a program on stdio, and one on HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

STDIO_SERVER = r"""
import json, os, sys

def result(message):
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        server = {"name": "probe", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if message["method"] == "tools/list":
        schema = {"type": "object", "properties": {"who": {"type": "string"}}}
        annotations = {"readOnlyHint": True}
        return {"tools": [{"name": "hello", "description": "probe", "inputSchema": schema, "annotations": annotations}]}
    if message["method"] == "tools/call":
        said = f"hi {message['params']['arguments'].get('who')} PROBE={os.environ.get('PROBE')} "
        return {"content": [{"type": "text", "text": said + "z" * 70000}]}
    return None

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = result(message)
        answer = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


class HttpServer:
    """On a free port of 127.0.0.1 within an `async with`; `asked` are the methods that it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        app = web.Application()
        app.router.add_post("/mcp", self._respond)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)

    async def __aenter__(self) -> HttpServer:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/mcp"

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        self.asked.append(message["method"])
        if "id" not in message:
            return web.Response(status=202)
        if message["method"] == "tools/call":
            return await self._stream(request, message["id"])
        result = _result(message)
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def _stream(self, request: web.Request, call_id: Any) -> web.StreamResponse:
        """The answer as an event stream whose event comes in a later packet than its head."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": wait\n\n")
        await asyncio.sleep(0.3)  # so that head and event cannot be read at once
        text = "hi by http " + "h" * 100_000
        answer = {"jsonrpc": "2.0", "id": call_id, "result": {"content": [{"type": "text", "text": text}]}}
        await response.write(b"event: message\ndata: " + json.dumps(answer).encode() + b"\n\n")
        await response.write_eof()
        return response


def _result(message: dict[str, Any]) -> dict[str, Any] | None:
    if message["method"] == "initialize":
        server = {"name": "probe", "version": "1"}
        version = message["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if message["method"] == "tools/list":
        tool = {"name": "hello", "description": "probe", "inputSchema": {"type": "object"}}
        return {"tools": [tool | {"annotations": {"readOnlyHint": True}}]}
    return None
