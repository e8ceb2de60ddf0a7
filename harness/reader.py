"""Reader: the files of a machine, here or elsewhere, as far as instructions, skills and plugins are read from it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from harness.disk import NotAFile, read_at_most
from harness.errors import ReadError, ReadFault
from harness.walk import Below, Walk, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from exec_server import Environment
    from protocol.sandbox import Sandbox

Kind = Literal["file", "folder", "other"]
T = TypeVar("T")
MAX_ENTRIES = 50_000
"""Files and folders that a walk finds, at most."""
_OS_ERROR = re.compile(r" \(os error \d+\)$")
_NOT_A_FILE = "it is not a regular file"
_FAULTS: dict[int | None, ReadFault] = {errno.ENOENT: "notFound", errno.ENOTDIR: "notAFolder"}


class Found(Struct, frozen=True):
    """What is at a path, links followed. `size`: bytes of a file."""

    kind: Kind
    size: int


class Child(Struct, frozen=True):
    """An entry of a folder. `kind` is that of what a link leads to; `other` for a link that leads nowhere."""

    name: str
    kind: Kind


class Reader(Protocol):
    """Reads absolute paths. Each call raises ReadError, and TransportDisconnected where the machine is elsewhere."""

    async def metadata(self, path: str) -> Found | None:
        """What is there, links followed; None if nothing is."""

    async def list(self, path: str) -> list[Child]:
        """What is in a folder, by name."""

    async def read_at_most(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes of a regular file, or all of it."""

    async def resolve(self, path: str) -> str:
        """The same path without links; something has to be there."""

    async def walk(self, path: str, max_depth: int, max_folders: int) -> Walk:
        """What is below a folder, in one request to a machine elsewhere. Folders up to `max_depth` below it (0: only
        itself) are read, at most `max_folders`, each real one once, links to folders followed, hidden ones listed only.
        Links to files are left out. Nothing is below what is no folder.
        """


class LocalReader(Struct, frozen=True):
    """The disk of this machine; each is equal to each. Waits for it in threads."""

    async def metadata(self, path: str) -> Found | None:
        try:
            return await _in_thread(_found, path)
        except ReadError as error:
            _raise_unless_absent(error)
            return None

    async def list(self, path: str) -> list[Child]:
        return await _in_thread(_children, path)

    async def read_at_most(self, path: str, limit: int) -> bytes:
        return await _in_thread(lambda path: read_at_most(path, limit), path)

    async def resolve(self, path: str) -> str:
        return await _in_thread(lambda path: os.path.realpath(path, strict=True), path)

    async def walk(self, path: str, max_depth: int, max_folders: int) -> Walk:
        return await _in_thread(lambda path: walk(path, max_depth, max_folders, MAX_ENTRIES), path)


class EnvironmentReader:
    """The files of an Environment, with a `sandbox` those that it allows to read."""

    def __init__(self, environment: Environment, sandbox: Sandbox | None = None) -> None:
        self._files = environment.files
        self._sandbox = sandbox

    async def metadata(self, path: str) -> Found | None:
        try:
            found = await _remote(path, self._files.metadata(path, sandbox=self._sandbox))
        except ReadError as error:
            _raise_unless_absent(error)
            return None
        return Found(_kind(found.is_file, found.is_directory), found.size)

    async def list(self, path: str) -> list[Child]:
        entries = await _remote(path, self._files.list(path, sandbox=self._sandbox))
        return sorted(
            (Child(each.file_name, _kind(each.is_file, each.is_directory)) for each in entries),
            key=lambda child: child.name,
        )

    async def read_at_most(self, path: str, limit: int) -> bytes:
        async def read() -> bytes:
            async with self._files.open(path, sandbox=self._sandbox) as file:
                return await file.read(limit)

        return await _remote(path, read())

    async def resolve(self, path: str) -> str:
        return await _remote(path, self._files.resolve(path, sandbox=self._sandbox))

    async def walk(self, path: str, max_depth: int, max_folders: int) -> Walk:
        walked = await _remote(
            path,
            self._files.walk(
                path,
                max_depth=max_depth,
                max_directories=max_folders,
                max_entries=MAX_ENTRIES,
                follow_symlinks=True,
                hidden=False,
                sandbox=self._sandbox,
            ),
        )
        found = (Below(_native(each.path), "file" if each.kind == "file" else "folder") for each in walked.entries)
        unreadable = (f"{_native(each.path)}: {_OS_ERROR.sub('', each.message)}" for each in walked.errors)
        return Walk(tuple(found), tuple(unreadable), walked.truncated)


def _native(uri: str) -> str:
    from protocol.paths import native_path

    return native_path(uri)


def _raise_unless_absent(error: ReadError) -> None:
    """Raise an error that says something else than that nothing is there."""
    if error.kind not in ("notFound", "notAFolder"):
        raise error


def _found(path: str) -> Found:
    status = os.stat(path)
    return Found(_kind(stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)), status.st_size)


def _children(path: str) -> list[Child]:
    with os.scandir(path) as entries:
        children = [Child(each.name, _kind(each.is_file(), each.is_dir())) for each in entries if os.path.exists(each)]
    return sorted(children, key=lambda child: child.name)


def _kind(is_file: bool, is_folder: bool) -> Kind:
    return "file" if is_file else "folder" if is_folder else "other"


async def _in_thread(call: Callable[[str], T], path: str) -> T:
    try:
        return await asyncio.to_thread(call, path)
    except OSError as error:
        raise _read_error(path, error.errno, str(error)) from None
    except NotAFile:
        raise ReadError(path, _NOT_A_FILE, "notAFile") from None
    except ValueError as error:  # a path that no system has
        raise ReadError(path, str(error), "unreadable") from None


async def _remote(path: str, answer: Awaitable[T]) -> T:
    from protocol.errors import ExecServerError

    try:
        return await answer
    except ExecServerError as error:
        data = error.data or {}
        if data.get("kind") == "notAFile":
            raise ReadError(path, _NOT_A_FILE, "notAFile") from None
        raise _read_error(path, data.get("errno"), error.message) from None
    except ValueError as error:
        raise ReadError(path, str(error), "unreadable") from None


def _read_error(path: str, code: int | None, text: str) -> ReadError:
    """The same for an error of this machine and of another."""
    reason = text if code is None else os.strerror(code)
    return ReadError(path, reason, _FAULTS.get(code, "unreadable"))
