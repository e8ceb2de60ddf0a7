"""Poller of a process in another session: its events are read from the server, which waits for nobody."""

from __future__ import annotations

import asyncio

from exec_server.client.demultiplexer import READ_MOST, UNKNOWN, Demultiplexer
from exec_server.client.errors import TransportDisconnected
from exec_server.client.event_buffer import HOLD_FROM, EventBuffer
from exec_server.client.events import Event, Failed, FailureKind
from exec_server.client.feed import Feed
from protocol.errors import ExecServerError, UnknownProcess
from protocol.process import ProcessReadParams

WAIT_MS = 60_000
"""How long the server waits for something new until it answers that there is nothing, in milliseconds."""


class Poller:
    """The events of one process, from when somebody waits for one; what the server does not keep until it is read is a
    Gap. Above 4 MiB that nobody takes nothing is read.
    """

    def __init__(self, process_id: str, session_id: str, demultiplexer: Demultiplexer) -> None:
        self.process_id = process_id
        self.buffer = EventBuffer(self._judge_size, self._begin)
        self._session_id = session_id
        self._demultiplexer = demultiplexer
        self._feed = Feed(process_id)
        self._room = asyncio.Event()
        self._room.set()
        self._reading: asyncio.Task[None] | None = None

    def put(self, events: list[Event]) -> None:
        """New events, in their order."""
        self.buffer.put(events)

    def _begin(self) -> None:
        if self._reading is None:
            self._reading = self._demultiplexer.create_task(self._read())

    async def _read(self) -> None:
        try:
            while not self._feed.closed:
                await self._room.wait()
                self._feed.behind = True
                params = ProcessReadParams(
                    self.process_id,
                    after_seq=self._feed.last_seq,
                    max_bytes=READ_MOST,
                    wait_ms=WAIT_MS,
                    session_id=self._session_id,
                )
                self.put(self._feed.read(await self._demultiplexer.session.call(params)))
        except TransportDisconnected as error:
            self._fail(error.reason, "disconnected")
        except UnknownProcess:
            self._fail(UNKNOWN, "unknownProcess")
        except ExecServerError as error:
            self._fail(error.message, "processLost")
        except asyncio.CancelledError:
            self._fail("the client was closed", "disconnected")
            raise

    def _fail(self, reason: str, kind: FailureKind) -> None:
        self.put([Failed(self.process_id, reason, kind)])

    def _judge_size(self) -> None:
        if self.buffer.size < HOLD_FROM:
            self._room.set()
        else:
            self._room.clear()
