"""Requests that upstream's server was asked to make, made by ours: the same web server is told the same, and so is the
client. And what it told of its machine's configuration.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conformance.compare import compare_errors
from tests.conformance.traces import REQUESTS, Trace, load
from tests.conformance.wires import serving
from tests.support.client import Body, Client, connected

pytestmark = pytest.mark.anyio

TRACES = load(REQUESTS)
UNSTEADY = {"date", "server"}


class Site:
    """The web server of the recording; `go_on` lets `/stream` go beyond its first piece."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.place = ""

    async def echo(self, request: web.Request) -> web.Response:
        fields = [[name.decode(), value.decode()] for name, value in request.raw_headers]
        told = {"m": request.method, "h": fields, "b": await request.text(), "q": request.query_string}
        return web.json_response(told, headers={"X-A": "1"})

    async def redir(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/echo?r=1"})

    async def loop(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/loop"})

    async def slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0.6)  # longer than the 300 ms of the recorded requests
        return web.Response(text="late")

    async def gz(self, request: web.Request) -> web.Response:
        body = gzip.compress(b"gz" * 500)
        fields = {"Content-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"}
        return web.Response(body=body, headers=fields)

    async def big(self, request: web.Request) -> web.Response:
        return web.Response(body=bytes(int(request.query["n"])))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"X-Dup": "a"})
        await response.prepare(request)
        for number in range(4):
            await response.write(b"chunk%d;" % number)
            await self.go_on.wait()
        return response

    async def abort(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"part")
        assert request.transport is not None
        request.transport.close()
        return response


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """The web server on a free loopback port."""
    pages = Site()
    app = web.Application()
    for name in ("echo", "redir", "loop", "slow", "gz", "big", "stream", "abort"):
        app.router.add_route("*", f"/{name}", getattr(pages, name))
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    pages.place = "{}:{}".format(*runner.addresses[0])
    try:
        yield pages
    finally:
        pages.go_on.set()
        await runner.cleanup()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the server's user."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "CODEX_HOME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SRVVAR", "fromserver")
    return tmp_path


def filled(value: Any, **values: str) -> Any:
    """A message with its places filled in."""
    text = json.dumps(value)
    for name, place in values.items():
        text = text.replace(f"@{name}@", place)
    return json.loads(text)


async def answers(client: Client, trace: Trace, pages: Site, values: dict[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Each request and its answer here, one after another; streamed bodies are heard to their end."""
    opened: list[Body] = []
    for message in filled(trace.send, **values):
        if "id" not in message:
            await client.notify(message["method"])
            continue
        params = message["params"]
        request_id = params.get("requestId")
        again = message["method"] == "http/request" and any(body.id == request_id for body in opened)
        if request_id == "dup" and not again:
            pages.go_on.clear()  # the body is not over when its id is used again
        if params.get("streamResponse") and not again:
            client.bodies[request_id] = Body(client, request_id)
        answer = await (await client.send(message["method"], **params))
        if again:
            pages.go_on.set()
        yield message, answer
        if params.get("streamResponse") and "result" in answer:
            opened.append(client.bodies[request_id])
            if request_id != "dup":
                await client.bodies[request_id].ended()
    for body in opened:
        await body.ended()


def test_the_names() -> None:
    assert set(TRACES) == {"http/basic", "http/hdrenv", "environmentConfig/read"}


@pytest.mark.parametrize("name", ["http/basic", "http/hdrenv"])
async def test_requests(name: str, home: Path) -> None:
    """A client written for upstream must not notice whose machine makes its requests."""
    trace = TRACES[name]
    theirs = {message["id"]: message for message in trace.recv if "id" in message}
    async with site() as pages, serving() as server, connected(server.listener.url) as client:
        async for message, answer in answers(client, trace, pages, {"WEB": pages.place}):
            expected = filled(theirs[message["id"]], WEB=pages.place)
            assert ("error" in answer) == ("error" in expected), (message, answer)
            if "error" in expected:
                assert list(compare_errors(expected["error"], answer["error"])) == [], (message, answer)
            elif message["method"] == "http/request":
                assert told(answer["result"]) == told(expected["result"]), message
        ours = {body.id: body for body in client.bodies.values() if body.is_done}
        for request_id, (data, error) in streamed(trace).items():
            body = ours.pop(request_id)
            assert (body.error or "").startswith(error or "") and (body.error is None) == (error is None)
            assert steady(body.data()) == steady(data) or (data == b"" and len(body.data()) == 300_000), request_id
        assert ours == {}


def told(result: dict[str, Any]) -> Any:
    """What of a response has to be the same."""
    body = result["bodyBase64"]
    names = [(each["name"], each["value"]) for each in result["headers"] if each["name"] not in UNSTEADY]
    if result["status"] == 400:  # the text of a library
        return result["status"], [name for name, _ in names]
    if body.endswith("…") or len(body) > 100_000:
        return result["status"], sorted(names), "long"
    content = base64.b64decode(body)
    if not content.startswith(b"{"):
        return result["status"], sorted(names), content
    return result["status"], sorted(each for each in names if each[0] != "content-length"), steady(content)


def steady(content: bytes) -> Any:
    """What `/echo` saw, without the port and the order of different fields; anything else as it is."""
    if not content.startswith(b"{"):
        return content
    seen = json.loads(re.sub(rb"127\.0\.0\.1:\d+", b"WEB", content))
    seen["h"] = sorted([field.lower(), value] for field, value in seen["h"])
    return seen


def streamed(trace: Trace) -> dict[str, tuple[bytes, str | None]]:
    """The bodies of a recording: bytes and error. Nothing is kept of the long one, which had 300,000 bytes."""
    bodies: dict[str, tuple[bytes, str | None]] = {}
    for message in trace.recv:
        if message.get("method") == "http/request/bodyDelta":
            params = message["params"]
            data, _ = bodies.get(params["requestId"], (b"", None))
            delta = params["deltaBase64"]
            piece = b"" if delta.endswith("…") else base64.b64decode(delta)
            bodies[params["requestId"]] = (data + piece, params["error"])
    return bodies


async def test_the_machines_configuration(home: Path) -> None:
    """What the real client reads when it starts: nothing, a table, nothing asked for, a file that is broken."""
    trace = TRACES["environmentConfig/read"]
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    files = {3: '[mcp_servers.a]\ncommand = "b"\n', 5: "bad = = 1\n"}
    values = {"HOME": str(home), "DIR": "/tmp", "HOST": os.uname().nodename}
    theirs = {message["id"]: message for message in trace.recv}
    async with serving() as server, connected(server.listener.url) as client:
        for message in filled(trace.send, **values):
            if "id" not in message:
                await client.notify(message["method"])
                continue
            if message["id"] in files:
                config.write_text(files[message["id"]])
            answer = await (await client.send(message["method"], **message["params"]))
            expected = filled(theirs[message["id"]], **values)
            if message["method"] == "initialize":
                continue
            if "error" in expected:
                text = expected["error"]["message"].partition(": extra")[0]  # behind it are the words of a library
                assert (answer["error"]["code"], answer["error"]["message"][: len(text)]) == (
                    expected["error"]["code"],
                    text,
                )
            else:
                assert answer["result"] == expected["result"]
