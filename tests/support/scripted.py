"""The test's end of `scripted_child.py`: children that wait for commands, and their forks."""

from __future__ import annotations

import asyncio
from pathlib import Path

PATIENCE_S = 30.0
"""How long a test waits for an event before it says that it did not happen, in seconds."""
SCRIPTED_CHILD = Path(__file__).with_name("scripted_child.py")


class ScriptedChild:
    """One process that carries out commands, one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.open = {"o", "e"}

    async def does(self, command: str, data: bytes = b"") -> None:
        """Returns when the command has been carried out."""
        self._writer.write(command.encode() + b"\n" + data)
        async with asyncio.timeout(PATIENCE_S):
            assert await self._reader.readexactly(1) == b"+"

    async def ends(self, code: int) -> None:
        """Have it exit; returns when it has."""
        self._writer.write(f"X {code}\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            assert await self._reader.read() == b""
        self._writer.close()


class ScriptedChildren:
    """All processes that have connected to one path. `first` is the child itself, the others are its forks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._arrived: asyncio.Queue[ScriptedChild] = asyncio.Queue()
        self.first: ScriptedChild
        self.living: list[ScriptedChild] = []

    async def __aenter__(self) -> ScriptedChildren:
        self._server = await asyncio.start_unix_server(self._connected, self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for child in self.living:
            child._writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._arrived.put_nowait(ScriptedChild(reader, writer))

    async def arrive(self, inherited: set[str] | None = None) -> None:
        """The next process that connects; `inherited` are the streams that it has open."""
        async with asyncio.timeout(PATIENCE_S):
            child = await self._arrived.get()
        if inherited is None:
            self.first = child
        else:
            child.open = inherited
        self.living.append(child)

    def pick(self, index: int) -> ScriptedChild | None:
        """One of those that live, None if there is none."""
        return self.living[index % len(self.living)] if self.living else None

    async def end(self, child: ScriptedChild, code: int) -> None:
        """See a process to its exit."""
        self.living.remove(child)
        await child.ends(code)
