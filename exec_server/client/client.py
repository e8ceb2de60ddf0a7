"""ExecServerClient: a session on a server, as a program uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import Sequence
from typing import Unpack

from exec_server.client.demultiplexer import Demultiplexer, EventStream
from exec_server.client.errors import TransportDisconnected
from exec_server.client.other_session import OtherSession
from exec_server.client.process import Process
from exec_server.client.session import Session
from exec_server.client.start import RunOptions, StartOptions, known, start_params
from protocol.environment import EnvironmentInfo
from protocol.errors import UnknownProcess
from protocol.process import (
    ProcessEntry,
    ProcessListParams,
    ProcessTerminateParams,
    ProcessTerminateResult,
)
from protocol.requests import ParamsFor, ResultT

END_S = 2.0
"""How long `close` waits for the answers to its kills, in seconds."""


class ExecServerClient:
    """Starts processes on a server, and hears of them. Made by `connect_websocket` and its neighbours."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._demultiplexer = Demultiplexer(session)
        self._detached = False

    @classmethod
    async def over(cls, session: Session) -> ExecServerClient:
        """The client of a session, which it opens: see `Session.open`."""
        client = cls(session)
        await session.open(client._demultiplexer)
        return client

    @property
    def session_id(self) -> str:
        """The id of the session. Whoever knows it has full power over the session: it is a secret."""
        return self._session.facts.session_id

    @property
    def observe_id(self) -> str:
        """With this id others can watch the session."""
        return self._session.facts.observe_id

    @property
    def environment_info(self) -> EnvironmentInfo:
        """What the server's machine is."""
        return self._session.facts.environment_info

    @property
    def extensions(self) -> list[str]:
        """The additions to the wire that the server has in force, by their names in docs/protocol.md."""
        return list(self._session.facts.extensions)

    async def call(self, params: ParamsFor[ResultT]) -> ResultT:
        """Any request of docs/protocol.md, by its params: `result = await client.call(ProcessListParams())`.

        Raises the ExecServerError that the server answers with, and TransportDisconnected.
        """
        return await self._session.call(params)

    async def start(self, argv: Sequence[str | os.PathLike[str]], **options: Unpack[StartOptions]) -> Process:
        """Start a program; returns its handle when it is being executed. `StartOptions` describes the options.

        Raises SpawnError if it cannot be started, InvalidRequest if its id is in use, NotImplementedError for what
        this server lacks, and TransportDisconnected if the connection is lost for good, or was cut before the program
        was started. A start is never sent twice.
        """
        known(options, StartOptions, "start")
        pass_fds = options.get("pass_fds", ())
        if pass_fds and not self._session.in_process:
            raise NotImplementedError("pass_fds: file descriptors cannot be passed to another process's server")
        params = start_params(self._session.facts, options.get("process_id") or uuid.uuid4().hex, argv, options)
        subscription = self._demultiplexer.add(params.process_id)
        try:
            subscription.start = self._session.post(params, pass_fds=tuple(pass_fds))
            await subscription.start.future
        except BaseException as error:
            self._demultiplexer.remove(subscription)
            if isinstance(error, asyncio.CancelledError):
                self._kill(params.process_id)
            raise
        return Process(self._session, subscription, params.argv, params.tty, params.pipe_stdin)

    async def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: bytes | None = None,
        check: bool = False,
        timeout: float | None = None,
        **options: Unpack[RunOptions],
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end, like `subprocess.run` with captured output.

        Raises subprocess.CalledProcessError with `check` unless the exit status is 0, and subprocess.TimeoutExpired
        after `timeout` seconds, with the output so far; the program and its descendants are killed then. Else as
        `start`.
        """
        known(options, RunOptions, "run")
        process = await self.start(argv, stdin=subprocess.DEVNULL if input is None else subprocess.PIPE, **options)
        async with process:
            stdout, stderr = await process.communicate(input, timeout)
            status = await process.wait()
        if check and status:
            raise subprocess.CalledProcessError(int(status), process.args, stdout, stderr)
        return subprocess.CompletedProcess(process.args, int(status), stdout, stderr)

    async def list(self) -> list[ProcessEntry]:
        """All processes of the session whose record is there, in the order of their starts."""
        return (await self._session.call(ProcessListParams())).processes

    async def attach(self, process_id: str) -> Process:
        """A handle of a process of this session that has none here: one that was started before a resume.

        Its output is that which the server has retained, beginning with a Gap if some is evicted. Raises
        UnknownProcess if there is none of this id, InvalidRequest if it has a handle here.
        """
        subscription = self._demultiplexer.add(process_id)
        try:
            for found in await self.list():
                if found.process_id == process_id:
                    subscription.feed.behind = True
                    subscription.catch_up()
                    return Process(self._session, subscription, found.argv, found.tty, piped=False)
        except BaseException:
            self._demultiplexer.remove(subscription)
            raise
        self._demultiplexer.remove(subscription)
        raise UnknownProcess(process_id)

    def session(self, session_id: str) -> OtherSession:
        """The processes of another session on this server, such as one that a program has left with `detach`.

        Nothing is asked of the server yet. Raises NotImplementedError if the server lacks the extension.
        """
        if not self._session.has("attach"):
            raise NotImplementedError("session: this server lacks the extension `attach`")
        return OtherSession(self._session, self._demultiplexer, session_id)

    def events(self) -> EventStream:
        """What happens to all processes of this client from now on: Output, Gap, Exited, Closed, Failed; and to the
        connection: Disconnected, Reconnected.

        For whoever wants to look on: `async for event in client.events()`. It holds nobody up: above 256 events that
        wait, further ones are left out, and a Missed says how many. Ends with the session.
        """
        return self._demultiplexer.subscribe()

    async def detach(self) -> str:
        """Close the connection and leave the processes running; the id with which the session can be resumed.

        The session lives as long without a connection as the server, or `session_ttl`, says.
        """
        self._detached = True
        await self.close()
        return self.session_id

    async def close(self) -> None:
        """Kill what has a handle here and still runs, and close the connection.

        If the connection is cut at this moment, the server kills when the time of the session is over.
        """
        if not self._detached and self._session.connected:
            answers = [answer for each in self._demultiplexer.process_ids if (answer := self._kill(each)) is not None]
            if answers:
                await asyncio.wait(answers, timeout=END_S)
        await self._session.close()
        await self._demultiplexer.close()

    def _kill(self, process_id: str) -> asyncio.Future[ProcessTerminateResult] | None:
        try:
            return self._session.post(ProcessTerminateParams(process_id)).future
        except TransportDisconnected:
            return None

    async def __aenter__(self) -> ExecServerClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
