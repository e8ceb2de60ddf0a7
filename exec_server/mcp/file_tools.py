"""Tools for files: read, write and edit text, list directories, look at pictures."""

from __future__ import annotations

import asyncio
import base64
import posixpath
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from mcp_types import ImageContent, ToolAnnotations
from msgspec import Meta, Struct

from exec_server.client.files import OpenFile
from exec_server.mcp.call import Call
from exec_server.mcp.edits import replaced
from exec_server.mcp.errors import ToolError
from exec_server.mcp.lines import LineReader, text_of, trimmed
from exec_server.mcp.machine import Link
from exec_server.mcp.session import McpSession, Version
from exec_server.mcp.tooling import Answer, Arguments, Tool
from protocol.errors import NotFound

MAX_READ_BYTES = 256 << 10
"""The most that one call reads."""
READ_BYTES = 40_000
"""What a call reads that does not say: about 10,000 tokens."""
READ_LINES = 2000
MAX_WRITE_BYTES = 8 << 20
MAX_EDIT_BYTES = 8 << 20
"""The largest file that can be edited."""
MAX_SANDBOXED_BYTES = 32 << 20
"""The largest file that is read in a sandbox."""
ENTRIES = 500
MAX_ENTRIES = 5000
BLOCK = 1 << 20

Offset = Annotated[int, Meta(ge=0)]
Path = Annotated[str, Meta(description="Absolute, or relative to the working folder.")]


class ReadArguments(Arguments, frozen=True):
    path: Path
    start_line: Annotated[int, Meta(ge=1, description="First line, from 1.")] = 1
    max_lines: Annotated[int, Meta(ge=1, description="Most lines.")] = READ_LINES
    start_byte: Annotated[Offset | None, Meta(description="Read from this byte on, instead of by lines.")] = None
    max_bytes: Annotated[int, Meta(ge=1, description="Most bytes, up to 262144.")] = READ_BYTES


class ReadResult(Struct, frozen=True):
    text: str
    size: int
    left_bytes: int
    next_line: int | None
    next_byte: int | None


class WriteFileArguments(Arguments, frozen=True):
    path: Path
    content: Annotated[str, Meta(description="All of the new content.")]


class WriteResult(Struct, frozen=True):
    path: str
    size: int
    created: bool


class EditArguments(Arguments, frozen=True):
    path: Path
    old_text: Annotated[str, Meta(description="Exact text to replace; must be in the file exactly once.")]
    new_text: Annotated[str, Meta(description="What to put in its place.")]


class EditResult(Struct, frozen=True):
    diff: str


class ListArguments(Arguments, frozen=True):
    path: Path = "."
    max_entries: Annotated[int, Meta(ge=1, description="Most entries, up to 5000.")] = ENTRIES


class DirectoryItem(Struct, frozen=True):
    name: str
    kind: str


class ListResult(Struct, frozen=True):
    path: str
    entries: list[DirectoryItem]
    left: int


class ImageArguments(Arguments, frozen=True):
    path: Path


class ImageResult(Struct, frozen=True):
    media_type: str
    width: int
    height: int


# -- reading ----------------------------------------------------------------------------------------------------


async def read_file(session: McpSession, arguments: ReadArguments, call: Call) -> Answer:
    """Part of a text file, and what is left of it."""
    link = await session.link()
    path = await link.paths.of(arguments.path)
    version = await version_of(link, path)
    most = min(arguments.max_bytes, MAX_READ_BYTES)
    if arguments.start_byte is None:
        data, end, next_line = await _read_lines(link, path, arguments, most)
    else:
        data, end = await _read_bytes(link, path, arguments.start_byte, most)
        next_line = None
    text = text_of(data)
    if text is None:
        raise ToolError(
            f"{path} is no UTF-8 text ({version.size} bytes). view_image shows pictures; for others run `xxd`."
        )
    session.saw(path, version)
    left = max(0, version.size - end)
    result = ReadResult(text, version.size, left, next_line if left else None, end if left else None)
    return Answer(result, f"{text}{_rest(result)}")


async def _read_lines(link: Link, path: str, arguments: ReadArguments, most: int) -> tuple[bytes, int, int | None]:
    reader = LineReader(arguments.start_line, arguments.max_lines, most)
    async with _opened(link, path) as file:
        while not reader.full and (block := await file.read(BLOCK)):
            reader.feed(block)
    excerpt = reader.excerpt()
    if not excerpt.data and arguments.start_line > 1:
        raise ToolError(f"{path} has {reader.lines_seen} lines only: start_line {arguments.start_line} is behind them.")
    return excerpt.data, excerpt.end, excerpt.next_line


async def _read_bytes(link: Link, path: str, start: int, most: int) -> tuple[bytes, int]:
    async with _opened(link, path) as file:
        file.position = start
        data = await file.read(most)
    end = start + len(data)
    whole = trimmed(data)
    if len(data) == most:  # the half of a character at the end is for the next call
        end -= len(data) - (data.find(whole) + len(whole)) if whole else 0
    return whole, end


class _Content:
    """A file that was read at once, with the part of `OpenFile` that is needed here."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    async def read(self, size: int) -> bytes:
        data = self._data[self.position : self.position + size]
        self.position += len(data)
        return data


@asynccontextmanager
async def _opened(link: Link, path: str) -> AsyncGenerator[OpenFile | _Content, None]:
    """A file to be read in blocks. In a sandbox it is read at once: a server opens none there. Raises ToolError."""
    if link.paths.sandbox is None:
        async with link.files.open(path) as file:
            yield file
        return
    size = (await version_of(link, path)).size
    if size > MAX_SANDBOXED_BYTES:
        raise ToolError(f"{path} has {size} bytes, too many to be read in a sandbox: use sed -n or tail -c.")
    yield _Content(await link.files.read(path, sandbox=link.paths.sandbox))


def _rest(result: ReadResult) -> str:
    if not result.left_bytes:
        return "" if result.text else "(empty)"
    where = f"start_byte {result.next_byte}" if result.next_line is None else f"start_line {result.next_line}"
    newline = "" if result.text.endswith("\n") else "\n"
    return f"{newline}[… {result.left_bytes} of {result.size} bytes are left: go on with {where} …]"


async def version_of(link: Link, path: str) -> Version:
    """How a regular file is now. Raises ToolError for what is none, NotFound."""
    found = await link.files.metadata(path, sandbox=link.paths.sandbox)
    if found.is_directory:
        raise ToolError(f"{path} is a directory: list_directory shows what is in it.")
    if not found.is_file:
        raise ToolError(f"{path} is no regular file.")
    return Version(found.modified_at_ms, found.size)


# -- writing ----------------------------------------------------------------------------------------------------


async def write_file(session: McpSession, arguments: WriteFileArguments, call: Call) -> Answer:
    """Make a file, or give it a new content."""
    data = _encoded(arguments.content, "content")
    if len(data) > MAX_WRITE_BYTES:
        raise ToolError(f"content has {len(data)} bytes, more than {MAX_WRITE_BYTES}: write it with a command.")
    link = await session.link()
    path = await link.paths.of(arguments.path)
    try:
        _refuse_changed(session, path, await version_of(link, path))
        created = False
    except NotFound:
        created = True
        await link.files.mkdir(posixpath.dirname(path), parents=True, sandbox=link.paths.sandbox)
    await link.files.write(path, data, sandbox=link.paths.sandbox)
    session.saw(path, await version_of(link, path))
    done = "Created" if created else "Wrote"
    return Answer(WriteResult(path, len(data), created), f"{done} {path}, {len(data)} bytes.")


async def edit_file(session: McpSession, arguments: EditArguments, call: Call) -> Answer:
    """Replace a text that is in a file once."""
    link = await session.link()
    path = await link.paths.of(arguments.path)
    before = await version_of(link, path)
    if before.size > MAX_EDIT_BYTES:
        raise ToolError(f"{path} has {before.size} bytes, more than {MAX_EDIT_BYTES}: edit it with a command.")
    _refuse_changed(session, path, before)
    text = text_of(await link.files.read(path, sandbox=link.paths.sandbox))
    if text is None:
        raise ToolError(f"{path} is no UTF-8 text: edit it with a command.")
    edit = await asyncio.to_thread(replaced, text, arguments.old_text, arguments.new_text, path)
    data = _encoded(edit.text, "new_text")
    if await version_of(link, path) != before:
        raise _changed(path)
    await link.files.write(path, data, sandbox=link.paths.sandbox)
    session.saw(path, await version_of(link, path))
    return Answer(EditResult(edit.diff), edit.diff)


def _refuse_changed(session: McpSession, path: str, now: Version) -> None:
    seen = session.seen(path)
    if seen is not None and seen != now:
        raise _changed(path)


def _changed(path: str) -> ToolError:
    return ToolError(f"{path} has changed since it was read: read it again, then repeat the change.")


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{name} has half of a surrogate pair at character {error.start}: it is no text.") from None


# -- directories and pictures -----------------------------------------------------------------------------------


async def list_directory(session: McpSession, arguments: ListArguments, call: Call) -> Answer:
    """What is in a directory, by name."""
    link = await session.link()
    path = await link.paths.of(arguments.path)
    found = sorted(await link.files.list(path, sandbox=link.paths.sandbox), key=lambda each: each.file_name)
    most = min(arguments.max_entries, MAX_ENTRIES)
    items = [
        DirectoryItem(each.file_name, "directory" if each.is_directory else "file" if each.is_file else "other")
        for each in found[:most]
    ]
    left = len(found) - len(items)
    lines = [each.name + ("/" if each.kind == "directory" else "") for each in items]
    if left:
        lines.append(f"[… {left} more …]")
    return Answer(ListResult(path, items, left), "\n".join(lines) or "(empty)")


async def view_image(session: McpSession, arguments: ImageArguments, call: Call) -> Answer:
    """A picture, made to fit."""
    link = await session.link()
    path = await link.paths.of(arguments.path)
    picture = await link.environment.read_image(path, sandbox=link.paths.sandbox)
    data = base64.b64encode(picture.data).decode()
    image = ImageContent(data=data, mime_type=picture.media_type)
    result = ImageResult(picture.media_type, picture.width, picture.height)
    return Answer(result, f"{path}: {picture.media_type}, {picture.width} by {picture.height} pixels.", [image])


_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

FILE_TOOLS = (
    Tool(
        "read_file",
        "Read a text file",
        "Text of a file, by lines or from a byte on; says what is left and how to go on.",
        ReadArguments,
        ReadResult,
        _READS,
        read_file,
    ),
    Tool(
        "write_file",
        "Write a file",
        "Create a file (and its folders) or replace all of its content. Refused if it changed since you read it. To "
        "change a part use edit_file.",
        WriteFileArguments,
        WriteResult,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False),
        write_file,
    ),
    Tool(
        "edit_file",
        "Edit a file",
        "Replace old_text, which must be in the file exactly once, by new_text; returns the diff. Refused if the file "
        "changed since you read it.",
        EditArguments,
        EditResult,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False),
        edit_file,
    ),
    Tool(
        "list_directory",
        "List a directory",
        "Names and kinds of what is in a directory, sorted; nothing below it (search_files finds deeper).",
        ListArguments,
        ListResult,
        _READS,
        list_directory,
    ),
    Tool(
        "view_image",
        "View an image",
        "Show a picture file (PNG, JPEG, WebP, GIF), made smaller if it is large.",
        ImageArguments,
        ImageResult,
        _READS,
        view_image,
    ),
)
