"""The ways to copy between here and a server, file by file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Struct

from exec_server.cli.exit_status import CliError
from exec_server.client.errors import TransportDisconnected
from exec_server.client.files import Files
from protocol.errors import ExecServerError, NotFound
from protocol.filesystem import GetMetadataResult
from protocol.paths import native_path

AT_ONCE = 4 << 20
"""Up to this size a file is written by one request, which replaces the old one at once, in bytes."""
PIECE = 8 << 20
"""Bytes that are read and written at a time."""
DEEPEST = 256
"""Folders in folders; more is taken for a circle."""

Advance = Callable[[int], None]


class Item(Struct, frozen=True):
    """One file to copy."""

    source: str
    destination: str
    size: int


class CopyPlan(Struct):
    """What to copy: folders to make, in order, then files; and what cannot be copied, with the reason."""

    folders: list[str] = msgspec.field(default_factory=list)
    files: list[Item] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)


class Transfer(Protocol):
    """One direction. Raises OSErrors and the errors of the server, which have the path."""

    async def is_folder(self, destination: str) -> bool: ...

    async def plan(self, plan: CopyPlan, source: str, destination: str, recursive: bool) -> None:
        """Append what has to be done. Raises CliError for a folder without `recursive`."""

    async def mkdir(self, destination: str) -> None: ...

    async def copy(self, item: Item, advance: Advance) -> None:
        """Copy a file. Whatever happens, the destination has the old content or the new."""


class Upload:
    """From here to the server."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def is_folder(self, destination: str) -> bool:
        found = await metadata(self._files, destination)
        return found is not None and found.is_directory

    async def plan(self, plan: CopyPlan, source: str, destination: str, recursive: bool) -> None:
        self._plan(plan, source, destination, recursive, 0)

    def _plan(self, plan: CopyPlan, source: str, destination: str, recursive: bool, depth: int) -> None:
        found = os.stat(source)
        if stat.S_ISREG(found.st_mode):
            plan.files.append(Item(source, destination, found.st_size))
        elif not stat.S_ISDIR(found.st_mode):
            plan.left_out.append(f"{source} is neither a file nor a folder")
        elif not recursive:
            raise CliError(f"{source} is a folder: add -r")
        elif depth and os.path.islink(source):
            plan.left_out.append(f"{source} is a link to a folder")
        elif depth >= DEEPEST:
            plan.left_out.append(f"{source} is too deep")
        else:
            plan.folders.append(destination)
            for name in sorted(os.listdir(source)):
                path = os.path.join(source, name)
                if os.path.islink(path) and not os.path.exists(path):
                    plan.left_out.append(f"{path} is a link that leads nowhere")
                else:
                    self._plan(plan, path, os.path.join(destination, name), recursive, depth + 1)

    async def mkdir(self, destination: str) -> None:
        await self._files.mkdir(destination, parents=True)

    async def copy(self, item: Item, advance: Advance) -> None:
        with open(item.source, "rb") as file:
            first = file.read(AT_ONCE + 1)
            if len(first) <= AT_ONCE:
                await self._files.write(item.destination, first)
                advance(len(first))
                return
            await self._copy_large(file, first, item, advance)

    async def _copy_large(self, file: BinaryIO, first: bytes, item: Item, advance: Advance) -> None:
        """By way of another file. The wire has no rename: the server copies it, which replaces the old one at once."""
        destination = item.destination
        partial = os.path.join(os.path.dirname(destination), f".exec-server-cp-{secrets.token_hex(8)}")
        try:
            if await metadata(self._files, destination) is not None:
                destination = await self._files.resolve(destination)
                await self._files.copy(destination, partial)  # for its mode, which comes back with the copy
            async with self._files.open(partial, "replace") as there:
                piece = first
                while piece:
                    await there.write(piece)
                    advance(len(piece))
                    piece = file.read(PIECE)
            await self._files.copy(partial, destination)
        except (NotFound, TransportDisconnected) as error:
            raise explained(error, item) from None
        finally:
            await self._removed(partial)

    async def _removed(self, partial: str) -> None:
        try:
            await self._files.remove(partial, missing_ok=True)
        except (ExecServerError, TransportDisconnected):
            pass  # the first error tells


class Download:
    """From the server to here."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def is_folder(self, destination: str) -> bool:
        return os.path.isdir(destination)

    async def plan(self, plan: CopyPlan, source: str, destination: str, recursive: bool) -> None:
        await plan_remote(self._files, plan, source, destination, recursive)

    async def mkdir(self, destination: str) -> None:
        os.makedirs(destination, exist_ok=True)

    async def copy(self, item: Item, advance: Advance) -> None:
        destination = os.path.realpath(item.destination)
        if os.path.exists(destination) and not os.path.isfile(destination):
            with open(destination, "wb") as file:  # /dev/stdout and the like
                await self._fill(item, file.write, advance)
            return
        folder = os.path.dirname(destination)
        partial = os.path.join(folder, f".exec-server-cp-{secrets.token_hex(8)}")
        try:
            with open(partial, "xb") as file:
                if os.path.exists(destination):
                    os.fchmod(file.fileno(), stat.S_IMODE(os.stat(destination).st_mode))
                await self._fill(item, file.write, advance)
            os.replace(partial, destination)
        except FileNotFoundError:
            raise CliError(f"{item.destination}: there is no such folder") from None
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise

    async def _fill(self, item: Item, write: Callable[[bytes], object], advance: Advance) -> None:
        try:
            async with self._files.open(item.source) as there:
                while piece := await there.read(PIECE):
                    write(piece)
                    advance(len(piece))
        except (NotFound, TransportDisconnected) as error:
            raise explained(error, item) from None


class RemoteCopy:
    """From the server to the server."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def is_folder(self, destination: str) -> bool:
        found = await metadata(self._files, destination)
        return found is not None and found.is_directory

    async def plan(self, plan: CopyPlan, source: str, destination: str, recursive: bool) -> None:
        await plan_remote(self._files, plan, source, destination, recursive)

    async def mkdir(self, destination: str) -> None:
        await self._files.mkdir(destination, parents=True)

    async def copy(self, item: Item, advance: Advance) -> None:
        await self._files.copy(await self._files.resolve(item.source), item.destination)
        advance(item.size)


async def plan_remote(
    files: Files, plan: CopyPlan, source: str, destination: str, recursive: bool, depth: int = 0
) -> None:
    """Append what is to be copied of a path on the server."""
    found = await files.metadata(source)
    if found.is_file:
        plan.files.append(Item(source, destination, found.size))
    elif not found.is_directory:
        plan.left_out.append(f":{source} is neither a file nor a folder")
    elif not recursive:
        raise CliError(f":{source} is a folder: add -r")
    elif depth and found.is_symlink:
        plan.left_out.append(f":{source} is a link to a folder")
    elif depth >= DEEPEST:
        plan.left_out.append(f":{source} is too deep")
    else:
        plan.folders.append(destination)
        for entry in sorted(await files.list(source), key=lambda each: each.path):
            path = native_path(entry.path)
            name = os.path.basename(path)
            if name in ("", ".", ".."):
                raise CliError(f"the server lists a file without a usable name in {source}: {entry.path}")
            await plan_remote(files, plan, path, os.path.join(destination, name), recursive, depth + 1)


async def metadata(files: Files, path: str) -> GetMetadataResult | None:
    """What a path on the server leads to; None if nothing is there."""
    try:
        return await files.metadata(path)
    except NotFound:
        return None


def explained(error: NotFound | TransportDisconnected, item: Item) -> CliError:
    """Why a file could not be copied. A handle that is unknown is one that a cut has closed."""
    if isinstance(error, TransportDisconnected) or (error.data or {}).get("kind") == "unknownHandle":
        return CliError(f"the connection was cut in the middle of {item.source}: nothing was changed, copy it again")
    return CliError(f"{item.source} to {item.destination}: {error.message}")
