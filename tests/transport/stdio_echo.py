"""A program that answers each line on stdin with itself: `python -m tests.transport.stdio_echo [LOOP] [MODE]`."""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from transport.interface import InputEnded, MessagesArrived, TransportClosed, TransportEvent
from transport.stdio import StdioTransport


async def main(mode: str) -> None:
    over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    if mode == "nobody":
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    transport = StdioTransport()

    def notify(event: TransportEvent) -> None:
        match event:
            case MessagesArrived():
                while taken := transport.take(64):
                    for message in taken:
                        if mode == "pieces":
                            pieces = [message[i : i + 5] for i in range(0, len(message), 5)]
                            transport.send_pieces(iter(pieces))
                        else:
                            transport.send(message)
            case InputEnded(reason):
                transport.close(1000, reason or "end of input")
            case TransportClosed(reason):
                over.set_result(reason)

    transport.open(notify)
    if mode == "greet":
        transport.send(b'{"ready":true}')
    print(await over, file=sys.stderr)


if __name__ == "__main__":
    (uvloop.run if sys.argv[1] == "uvloop" else asyncio.run)(main(sys.argv[2]))
