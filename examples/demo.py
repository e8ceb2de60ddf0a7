"""`make demo`: a server on a free loopback port, driven as a client would: pipes, a terminal, a cut connection.

It speaks the wire by hand, so that what it prints is what anybody's client would see.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm", "PS1": "$ "}
COUNT = "for i in $(seq 1 20); do echo tick $i; sleep 0.05; done; exit 7"
PATIENCE_S = 20.0


class DemoFailed(Exception):
    """The server did not do what the demo promises; the text says what."""


class Client:
    """One connection, with its notifications in a queue and its answers matched by id."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            await self._dispatch()
        except ConnectionClosed as error:
            for answer in self._answers.values():
                answer.set_exception(DemoFailed(f"the connection broke: {error}"))

    async def _dispatch(self) -> None:
        async for frame in self._socket:
            message = json.loads(frame)
            if "method" in message:
                self.events.put_nowait(message)
            else:
                self._answers.pop(message["id"]).set_result(message)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request; its result. Raises DemoFailed with the error of the server."""
        request_id = next(self._ids)
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": request_id, "method": method, "params": params}))
        message = await asyncio.wait_for(answer, PATIENCE_S)
        if "error" in message:
            raise DemoFailed(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    async def initialize(self, resume: str | None = None) -> str:
        """The handshake; the session id."""
        result = await self.call("initialize", clientName="demo", resumeSessionId=resume)
        await self._socket.send(json.dumps({"method": "initialized"}))
        session: str = result["sessionId"]
        return session

    async def start(self, process_id: str, *argv: str, tty: bool = False) -> None:
        """Start a command in the root folder."""
        await self.call("process/start", processId=process_id, argv=argv, cwd="file:///", env=ENV, tty=tty)

    async def next_event(self) -> tuple[str, dict[str, Any]]:
        """The next notification: what happened, and its params."""
        message = await asyncio.wait_for(self.events.get(), PATIENCE_S)
        return message["method"].partition("/")[2], message["params"]

    async def cut(self) -> None:
        """Cut the connection without a goodbye, as a network does."""
        self._socket.transport.abort()
        await asyncio.wait([self._reader])

    async def close(self) -> None:
        """Close the connection properly."""
        await self._socket.close()
        await asyncio.wait([self._reader])


def text_of(params: dict[str, Any]) -> str:
    """The bytes of an output notification or chunk, as text."""
    return base64.b64decode(params["chunk"]).decode()


def say(text: str = "") -> None:
    """One line for the reader."""
    print(text, flush=True)


def show(params: dict[str, Any]) -> None:
    """Print a piece of output, each line marked with its sequence number and its stream."""
    for line in text_of(params).splitlines():
        say(f"    {params['seq']:>3} {params['stream']:<6} | {line}")


async def follow(client: Client, process_id: str, seen: list[int]) -> int:
    """Print events of a process until it is closed; the exit code. Raises DemoFailed at a hole in the numbers."""
    exit_code = None
    while True:
        what, params = await client.next_event()
        if params["processId"] != process_id or params["seq"] <= len(seen):
            continue  # another process, or an event that a read has brought already
        if params["seq"] != len(seen) + 1:
            raise DemoFailed(f"expected seq {len(seen) + 1}, got {params['seq']}")
        seen.append(params["seq"])
        if what == "output":
            show(params)
        elif what == "exited":
            exit_code = params["exitCode"]
            say(f"    {params['seq']:>3} exited with code {exit_code}")
        else:
            say(f"    {params['seq']:>3} closed")
            assert exit_code is not None
            return int(exit_code)


def expect(what: str, got: object, wanted: object) -> None:
    """Raise DemoFailed unless the server did as promised."""
    if got != wanted:
        raise DemoFailed(f"{what}: expected {wanted!r}, got {got!r}")


async def pipes(client: Client) -> None:
    """A command on pipes: two streams, one counter, an exit code."""
    say("A command on pipes, streamed as it prints:")
    script = "for i in 1 2 3; do echo line $i; sleep 0.1; done; echo something is wrong >&2; exit 3"
    await client.start("build", "/bin/sh", "-c", script)
    expect("exit code", await follow(client, "build", []), 3)


async def terminal(client: Client) -> None:
    """A shell on a terminal, typed into."""
    say("\nA shell on a terminal, typed into:")
    await client.start("shell", "/bin/sh", tty=True)
    for line in ("stty size", "echo $((6 * 7))", "exit 5"):
        data = base64.b64encode(line.encode() + b"\n").decode()
        await client.call("process/write", processId="shell", writeId=line, chunk=data)
    expect("exit code", await follow(client, "shell", []), 5)


async def cut_and_resume(url: str, client: Client, session: str) -> None:
    """A connection that breaks while a command runs, and a new one that goes on where it left off."""
    say("\nA connection that is cut while a command runs:")
    await client.start("count", "/bin/sh", "-c", COUNT)
    seen: list[int] = []
    while len(seen) < 3:
        _, params = await client.next_event()
        seen.append(params["seq"])
        show(params)
    await client.cut()
    say("        - connection cut; the command goes on -")
    await asyncio.sleep(0.3)
    async with connected(url) as again:
        expect("session", await again.initialize(resume=session), session)
        say("        - a new connection has resumed the session; what was missed: -")
        missed = await again.call("process/read", processId="count", afterSeq=seen[-1])
        for chunk in missed["chunks"]:
            show(chunk)
            seen.append(chunk["seq"])
        say("        - and live again: -")
        expect("exit code", await follow(again, "count", seen), 7)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A client on a new connection."""
    client = Client(await connect(url, compression=None, max_size=None))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def running_server() -> AsyncIterator[str]:
    """A server on a free port; its URL, from the first line it prints."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "exec_server", "--listen", "ws://127.0.0.1:0", stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        line = await asyncio.wait_for(server.stdout.readline(), PATIENCE_S)
        yield line.decode().strip()
    finally:
        if server.returncode is None:
            server.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(server.wait(), PATIENCE_S)
    expect("exit status of the server", status, 0)


async def demo() -> None:
    """The whole demo. Raises DemoFailed."""
    async with running_server() as url:
        say(f"exec-server at {url}\n")
        async with connected(url) as client:
            session = await client.initialize()
            await pipes(client)
            await terminal(client)
            await cut_and_resume(url, client, session)
    say("\nNothing lost, nothing doubled; the server has stopped and left nothing behind.")


def main() -> int:
    """Run the demo; exit status 0 only if all went as promised."""
    try:
        asyncio.run(demo())
    except (DemoFailed, TimeoutError, OSError) as error:
        print(f"demo failed: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
