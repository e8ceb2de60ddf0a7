"""A session that is not one's own: another client has it attached, or nobody."""

from __future__ import annotations

from exec_server.client.demultiplexer import Demultiplexer
from exec_server.client.poller import Poller
from exec_server.client.process import Process
from exec_server.client.session import Session
from protocol.errors import UnknownProcess
from protocol.process import ProcessEntry, ProcessListParams


class OtherSession:
    """The processes of another session, by its id: see `ExecServerClient.session`.

    Whoever has it attached is not disturbed, and what is done here holds nobody up. All raises InvalidRequest if there
    is no such session (any more), and TransportDisconnected.
    """

    def __init__(self, session: Session, demultiplexer: Demultiplexer, session_id: str) -> None:
        self.session_id = session_id
        """Whoever knows it has full power over the session: it is a secret."""
        self._session = session
        self._demultiplexer = demultiplexer

    async def list(self) -> list[ProcessEntry]:
        """All its processes whose record is there, in the order of their starts."""
        return (await self._session.call(ProcessListParams(self.session_id))).processes

    async def attach(self, process_id: str) -> Process:
        """A handle of a process; raises UnknownProcess if there is none of this id.

        Its output is read from the server when somebody asks for it, from the beginning: what the server does not keep
        until then is a Gap, and the process is not held for who reads slowly. The end of an `async with` leaves it
        running.
        """
        for entry in await self.list():
            if entry.process_id == process_id:
                return self.handle(entry)
        raise UnknownProcess(process_id)

    def handle(self, entry: ProcessEntry) -> Process:
        """A handle of a process that `list` told of."""
        poller = Poller(entry.process_id, self.session_id, self._demultiplexer)
        return Process(
            self._session, poller, entry.argv, entry.tty, piped=False, elsewhere=self.session_id, entry=entry
        )
