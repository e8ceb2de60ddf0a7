"""`make demo`: a server on a free port of this machine, and a client of it: pipes, a terminal, a cut connection."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import exec_server
from examples.cutting_proxy import CuttingProxy, cutting_proxy

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm", "PS1": "$ "}
COUNT = "for i in $(seq 1 20); do echo tick $i; sleep 0.05; done; exit 7"
PATIENCE_S = 20.0


class DemoFailed(Exception):
    """The server did not do what the demo promises; the text says what."""


def expect(what: str, got: object, wanted: object) -> None:
    """Raise DemoFailed unless the server did as promised."""
    if got != wanted:
        raise DemoFailed(f"{what}: expected {wanted!r}, got {got!r}")


def say(text: str = "") -> None:
    """One line for the reader."""
    print(text, flush=True)


def show(event: exec_server.Output | exec_server.Exited | exec_server.Closed) -> None:
    """An event, with the sequence number that output, exit and close of a process share."""
    match event:
        case exec_server.Output():
            for line in event.data.decode().splitlines():
                say(f"    {event.seq:>3} {event.stream:<6} | {line}")
        case exec_server.Exited():
            say(f"    {event.seq:>3} exited with code {event.status.code}")
        case exec_server.Closed():
            say(f"    {event.seq:>3} closed")


async def follow(process: exec_server.Process) -> None:
    """Show everything that happens to a process. Raises DemoFailed at a hole in the numbers."""
    last = 0
    async for event in process.events:
        if isinstance(event, exec_server.Gap | exec_server.Failed):
            raise DemoFailed(f"something is missing: {event}")
        expect("sequence number", event.seq, last + 1)
        last = event.seq
        show(event)


async def pipes(client: exec_server.ExecServerClient) -> None:
    """A command on pipes: two streams, one counter, an exit code."""
    say("A command on pipes, streamed as it prints:")
    script = "for i in 1 2 3; do echo line $i; sleep 0.1; done; echo something is wrong >&2; exit 3"
    process = await client.start(["sh", "-c", script], env=ENV)
    await follow(process)
    expect("exit code", await process.wait(), 3)


async def terminal(client: exec_server.ExecServerClient) -> None:
    """A shell on a terminal, typed into."""
    say("\nA shell on a terminal, typed into:")
    shell = await client.start(["sh"], tty=True, rows=24, cols=80, env=ENV)
    for line in ("stty size", "echo $((6 * 7))", "exit 5"):
        await shell.write(line.encode() + b"\n")
    await follow(shell)
    expect("exit code", await shell.wait(), 5)


async def cut_and_resume(client: exec_server.ExecServerClient, proxy: CuttingProxy) -> None:
    """A connection that breaks while a command runs, and is made anew."""
    say("\nA connection that is cut while a command runs, and input that is written meanwhile:")
    told = asyncio.create_task(tell_cuts(client.events()))
    process = await client.start(["sh", "-c", f"read name; echo hello, $name; {COUNT}"], stdin=PIPE, env=ENV)
    following = asyncio.create_task(follow(process))
    proxy.cut()
    await process.write(b"world\n")
    await asyncio.sleep(0.5)
    proxy.cut()
    await following
    expect("exit code", await process.wait(), 7)
    told.cancel()


async def tell_cuts(events: AsyncIterator[object]) -> None:
    """What becomes of the connection; the client needs no help."""
    async for event in events:
        if isinstance(event, exec_server.Disconnected):
            say("        - the connection is cut; the command goes on -")
        elif isinstance(event, exec_server.Reconnected):
            say("        - a new connection has resumed the session -")


@asynccontextmanager
async def running_server() -> AsyncIterator[str]:
    """A server on a free port; its URL, from the first line it prints."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "exec_server", "--listen", "ws://127.0.0.1:0", stdout=PIPE
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
    """The whole demo. Raises DemoFailed, TimeoutError if the server does not answer."""
    async with running_server() as url, cutting_proxy(url) as proxy, asyncio.timeout(PATIENCE_S):
        say(f"exec-server at {url}\n")
        async with exec_server.connect_websocket(proxy.url) as client:
            await pipes(client)
            await terminal(client)
            await cut_and_resume(client, proxy)
    say("\nNothing lost, nothing doubled; the server has stopped and left nothing behind.")


def main() -> int:
    """Run the demo; exit status 0 only if all went as promised."""
    try:
        asyncio.run(demo())
    except (DemoFailed, exec_server.ExecServerError, TimeoutError, OSError) as error:
        print(f"demo failed: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
