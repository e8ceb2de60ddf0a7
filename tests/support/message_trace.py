"""The messages between actors from the connection of a client to the end of its session, with one `/bin/true` between.

A program: it prints them as JSON, each as [sender, receiver, message] with the names of their classes, in the order in
which they were handled. Handlers are looked up once a class, so this wants a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from actors.base.actor import BaseActor, Handler
from exec_server.server.config import Config
from exec_server.server.server import Server, settings_of
from tests.support.client import session
from transport.listen import parse_listen_url, serve_websocket

HANDLED: list[tuple[str, str, str]] = []
NAMES: dict[str, str] = {}


def name_of(address: Any) -> str:
    return NAMES.get(str(address), "program")


def record_messages() -> None:
    """Have every handler of ours note what it is called for."""
    plain = BaseActor.handler_for.__func__  # type: ignore[attr-defined]

    def handler_for(cls: type[BaseActor], kind: type) -> Handler:
        handler: Handler = plain(cls, kind)

        def noted(actor: Any, message: Any, sender: Any) -> Any:
            NAMES[str(actor.myAddress)] = cls.__name__
            who = "transport" if kind.__module__ == "transport.interface" else name_of(sender)
            HANDLED.append((who, cls.__name__, kind.__name__))
            return handler(actor, message, sender)

        return noted

    BaseActor.handler_for = classmethod(handler_for)  # type: ignore[method-assign,assignment]


async def main() -> None:
    server = Server(settings_of(Config(session_ttl=0, process_retention=0.05)))
    await server.start()
    listener = serve_websocket(parse_listen_url("ws://127.0.0.1:0"), server.connect, defer=server.call_after_turn)
    async with session(listener.url) as client:
        await client.run("p", "/bin/true")
        await client.call("process/read", processId="p", afterSeq=0)
        while ("ProcessActor", "ConnectionActor", "Forgotten") not in HANDLED:
            await asyncio.sleep(0.01)
    while ("RouterActor", "ConnectionActor", "ActorExitRequest") not in HANDLED:
        await asyncio.sleep(0.01)
    listener.close()
    seen = list(HANDLED)
    await server.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    record_messages()
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)
