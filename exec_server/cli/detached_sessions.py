"""The sessions that `run --detach` has left on a server: their ids, which are secrets, in the user's state folder.

One file for each URL, `$XDG_STATE_HOME/exec-server/sessions/HASH.json` (`~/.local/state`), mode 0600, replaced as a
whole; beside it a file to lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from exec_server.cli.exit_status import CliError
from exec_server.cli.std_streams import Worker

LOCK_S = 30.0
"""How long to wait for another command that has the sessions of this URL in hand, in seconds."""


class DetachedSession(Struct, frozen=True):
    """One session. `keep`: how long it lives without a connection, in seconds."""

    session_id: str
    keep: float


class _File(Struct, frozen=True):
    url: str
    sessions: dict[str, DetachedSession]


class DetachedSessions:
    """Those of one URL, by the names that `--session` gives them."""

    def __init__(self, url: str, environ: Mapping[str, str] = os.environ) -> None:
        self._url = url
        base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
        self._folder = Path(base) / "exec-server" / "sessions"
        self._path = self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"

    def load(self) -> dict[str, DetachedSession]:
        """What is kept; nothing, if there is no file. Raises CliError."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).sessions
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CliError(f"cannot read {self._path}: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise CliError(f"{self._path} is damaged ({error}): remove it to begin anew") from None

    def save(self, sessions: Mapping[str, DetachedSession]) -> None:
        """Replace the file. Only for who holds the lock. Raises CliError."""
        try:
            fd, temporary = tempfile.mkstemp(dir=self._folder, prefix=self._path.name)  # mode 0600
            try:
                with open(fd, "wb") as file:
                    file.write(msgspec.json.encode(_File(self._url, dict(sessions))))
                    file.flush()
                    os.fsync(fd)
                os.replace(temporary, self._path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise CliError(f"cannot write {self._path}: {error.strerror}") from None

    async def forget(self, gone: Mapping[str, DetachedSession]) -> None:
        """Drop sessions that the server does not know any more, unless they have been replaced meanwhile."""
        if not gone:
            return
        async with self.locked():
            sessions = self.load()
            self.save({name: kept for name, kept in sessions.items() if gone.get(name) != kept})

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Nobody else changes the file meanwhile. Raises CliError."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CliError(f"cannot keep sessions in {self._folder}: {error.strerror}") from None
        try:
            async with asyncio.timeout(LOCK_S):
                await Worker().call(lambda: fcntl.flock(lock, fcntl.LOCK_EX))
            yield
        except TimeoutError:
            text = f"another exec-server has had {self._path} in hand for {LOCK_S:.0f} s: try again, or end that one"
            raise CliError(text) from None
        finally:
            os.close(lock)
