"""A process in a session that `run --detach` has left. Requests name the session: nobody has to hold it attached, and
who does hold it is not disturbed.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from exec_server.cli.detached_sessions import DetachedSession, DetachedSessions
from exec_server.cli.exit_status import CliError
from exec_server.client.client import ExecServerClient
from exec_server.client.events import Event
from exec_server.client.feed import Feed
from protocol.errors import InvalidRequest
from protocol.process import (
    ProcessCloseStdinParams,
    ProcessEntry,
    ProcessListParams,
    ProcessReadParams,
    ProcessResizeParams,
    ProcessSignalParams,
    ProcessTerminateParams,
    ProcessWaitParams,
    ProcessWaitResult,
    ProcessWriteParams,
)

READ_BYTES = 1 << 20
"""Output that is asked for at a time."""
WAIT_MS = 60_000
"""How long the server waits for something new until it answers that there is nothing, in milliseconds."""


class KeptProcess:
    """One process, with the names of `exec_server.client.process.Process`. Its output is read from the server, which
    waits for nobody: what it does not keep until then is a Gap.
    """

    def __init__(self, client: ExecServerClient, session_id: str, entry: ProcessEntry) -> None:
        self.entry = entry
        self.tty = entry.tty
        self._client = client
        self._id = entry.process_id
        self._session_id = session_id
        self._write_prefix = uuid.uuid4().hex
        self._writes = 0

    @property
    def events(self) -> AsyncIterator[Event]:
        """Everything that is known, and what happens until the process has closed."""
        return self.read(follow=True)

    async def read(self, follow: bool) -> AsyncIterator[Event]:
        """What the server has retained and, with `follow`, what happens from then on until the process has closed."""
        feed = Feed(self._id)
        while not feed.closed:
            feed.behind = True
            params = ProcessReadParams(
                self._id,
                after_seq=feed.last_seq,
                max_bytes=READ_BYTES,
                wait_ms=WAIT_MS if follow else 0,
                session_id=self._session_id,
            )
            try:
                result = await self._client.call(params)
            except InvalidRequest:
                raise CliError(f"{self._id}: the server has forgotten it") from None
            for event in feed.read(result):
                yield event
            if not follow and not result.chunks:
                return

    async def write(self, data: bytes) -> None:
        """Input. Raises BrokenPipeError if the process reads none."""
        self._writes += 1
        write_id = f"{self._write_prefix}-{self._writes}"
        params = ProcessWriteParams(self._id, data, write_id, session_id=self._session_id)
        result = await self._client.call(params)
        if result.status != "accepted":
            raise BrokenPipeError(f"{self._id} reads no input")

    async def close_stdin(self) -> None:
        await self._client.call(ProcessCloseStdinParams(self._id, self._session_id))

    async def resize(self, rows: int, cols: int) -> None:
        await self._client.call(ProcessResizeParams(self._id, rows, cols, self._session_id))

    async def signal(self, signal: int | str) -> None:
        await self._client.call(ProcessSignalParams(self._id, str(signal), self._session_id))

    async def terminate(self, grace: float = 5.0) -> bool:
        params = ProcessTerminateParams(self._id, "graceful", round(grace * 1000), self._session_id)
        return (await self._client.call(params)).running

    async def wait(self) -> ProcessWaitResult:
        """How it ended, once it has. Raises CliError if nobody knows any more."""
        while True:
            params = ProcessWaitParams(self._id, WAIT_MS, self._session_id)
            try:
                result = await self._client.call(params)
            except InvalidRequest:
                raise CliError(f"{self._id}: the server has forgotten it") from None
            if result.exited:
                return result


class Listed(NamedTuple):
    """A process, and the session it is in."""

    session: str
    kept: DetachedSession
    entry: ProcessEntry


async def listed(client: ExecServerClient, store: DetachedSessions, name: str | None) -> list[Listed]:
    """All processes of the session `name`, or of all that are kept, in the order of their starts.

    Sessions that the server does not know any more are forgotten here, too. Raises CliError for an unknown name.
    """
    if "attach" not in client.extensions or "list" not in client.extensions:
        raise CliError("this server does not let others see into a session: it lacks the extension `attach` or `list`")
    sessions = chosen(store.load(), name)
    found: list[Listed] = []
    gone = {}
    for session, kept in sessions.items():
        try:
            result = await client.call(ProcessListParams(kept.session_id))
        except InvalidRequest:
            gone[session] = kept
            continue
        found += [Listed(session, kept, entry) for entry in result.processes]
    await store.forget(gone)
    if name in gone:
        raise CliError(f"session {name} is gone: nobody was connected for longer than it was kept, or the server ended")
    return sorted(found, key=lambda each: each.entry.started_at_ms)


def chosen(sessions: Mapping[str, DetachedSession], name: str | None) -> Mapping[str, DetachedSession]:
    """The session of this name, or all. Raises CliError."""
    if name is None:
        return sessions
    if name not in sessions:
        known = ", ".join(sorted(sessions)) or "none"
        raise CliError(f"there is no session {name} on this server; known: {known}")
    return {name: sessions[name]}


async def found(client: ExecServerClient, store: DetachedSessions, process_id: str, name: str | None) -> KeptProcess:
    """The process with this id. Raises CliError."""
    for each in await listed(client, store, name):
        if each.entry.process_id == process_id:
            return KeptProcess(client, each.kept.session_id, each.entry)
    raise CliError(f"there is no command {process_id} on this server: `exec-server ps` lists them")
