"""Search: which files there are, and which lines in them match. With ripgrep where the machine has it; else our walk
chooses the files, and grep looks into them.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import posixpath
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from mcp_types import ToolAnnotations
from msgspec import Meta, Struct

from exec_server.client.streams import OutputStream
from exec_server.mcp.call import Call
from exec_server.mcp.errors import ToolError
from exec_server.mcp.machine import Link
from exec_server.mcp.paths import is_within
from exec_server.mcp.session import McpSession
from exec_server.mcp.tooling import Answer, Arguments, Tool
from protocol.errors import SpawnError
from protocol.filesystem import WalkEntry
from protocol.paths import native_path

RESULTS = 100
MAX_RESULTS = 1000
LINE_CHARS = 300
"""How much of a line is shown."""
SEARCH_S = 30.0
"""How long a search may take, in seconds."""
MAX_FILE_BYTES = 10 << 20
"""Larger files are not looked into by ripgrep."""
FILES_AT_ONCE = 500
"""How many files one grep gets: the arguments of a program have a bound."""
COMPLAINT_BYTES = 4096


class _Truncated(Exception):
    """All that was found has been told, and it is not all that there is."""


class SearchArguments(Arguments, frozen=True):
    pattern: Annotated[str, Meta(description="Regular expression for a line. Empty: list files by glob.")] = ""
    path: Annotated[str, Meta(description="Folder or file to search.")] = "."
    glob: Annotated[str | None, Meta(description="Only files like this, e.g. *.py")] = None
    ignore_case: bool = False
    max_results: Annotated[int, Meta(ge=1, description="Up to 1000.")] = RESULTS


class Match(Struct, frozen=True):
    path: str
    line: int | None
    text: str | None


class SearchResult(Struct, frozen=True):
    matches: list[Match]
    complete: bool


async def search_files(session: McpSession, arguments: SearchArguments, call: Call) -> Answer:
    """Lines that match, or files."""
    if "\n" in arguments.pattern or "\0" in arguments.pattern + (arguments.glob or ""):
        raise ToolError("pattern is for one line and must not contain newlines or NUL: search for a part of it.")
    link = await session.link()
    path = await link.paths.of(arguments.path)
    await link.files.resolve(path, sandbox=link.paths.sandbox)
    if session.has_ripgrep is None:
        session.has_ripgrep = await _has_ripgrep(link)
    found = _by_ripgrep if session.has_ripgrep else _by_walk
    most = min(arguments.max_results, MAX_RESULTS)
    matches: list[Match] = []
    complete = True
    try:
        async with asyncio.timeout(SEARCH_S), aclosing(found(link, path, arguments)) as every:
            async for match in every:
                if len(matches) == most:
                    complete = False
                    break
                matches.append(match)
    except (TimeoutError, _Truncated):
        complete = False
    matches.sort(key=lambda each: (each.path, each.line or 0))
    return Answer(SearchResult(matches, complete), _text(matches, complete))


def _text(matches: Sequence[Match], complete: bool) -> str:
    lines = [each.path if each.line is None else f"{each.path}:{each.line}:{each.text}" for each in matches]
    if not complete:
        lines.append("[… there is more: narrow it down with path, glob or pattern, or raise max_results …]")
    return "\n".join(lines) or "Nothing found."


# -- ripgrep ----------------------------------------------------------------------------------------------------


async def _has_ripgrep(link: Link) -> bool:
    try:
        process = await link.environment.processes.start(["rg", "--version"], sandbox=link.paths.sandbox)
    except SpawnError:
        return False
    async with process:
        await process.communicate()
        return await process.wait() == 0


async def _by_ripgrep(link: Link, path: str, arguments: SearchArguments) -> AsyncGenerator[Match, None]:
    argv = ["rg", "--no-config", "--hidden", "--glob", "!.git", "--max-filesize", str(MAX_FILE_BYTES)]
    if arguments.glob is not None:
        argv += ["--glob", arguments.glob]
    if not arguments.pattern:
        argv += ["--files", "--", path]
    else:
        argv += ["--ignore-case"] * arguments.ignore_case + ["--json", "--regexp", arguments.pattern, "--", path]
    parse = _parsed if arguments.pattern else _named
    async with aclosing(_matches(link, argv, parse)) as matches:
        async for match in matches:
            yield match


def _named(line: str) -> Match | None:
    return Match(line, None, None)


def _parsed(line: str) -> Match | None:
    """A line of `rg --json`, where it is about a match."""
    try:
        event: Any = json.loads(line)
    except ValueError:
        return None
    if event.get("type") != "match":
        return None
    data = event["data"]
    path, text = data["path"].get("text"), data["lines"].get("text")
    if path is None:
        return None  # its name is no UTF-8
    return Match(path, data["line_number"], _shown("(no UTF-8)" if text is None else text))


# -- our walk, and grep -----------------------------------------------------------------------------------------


async def _by_walk(link: Link, path: str, arguments: SearchArguments) -> AsyncGenerator[Match, None]:
    files, truncated = await _files(link, path, arguments.glob)
    for file in [] if arguments.pattern else files:
        yield Match(file, None, None)
    options = "-nHEi" if arguments.ignore_case else "-nHE"
    for start in range(0, len(files) if arguments.pattern else 0, FILES_AT_ONCE):
        some = files[start : start + FILES_AT_ONCE]
        argv = ["grep", options, "-s", "-e", arguments.pattern, "--", *some]
        async with aclosing(_matches(link, argv, partial(grep_match, known=set(some)))) as matches:
            async for match in matches:
                yield match
    if truncated:
        raise _Truncated


async def _files(link: Link, path: str, glob: str | None) -> tuple[list[str], bool]:
    """The files below a path, or itself; and whether there are more than a walk may find."""
    metadata = await link.files.metadata(path, sandbox=link.paths.sandbox)
    if not metadata.is_directory:
        return [path], False
    walked = await link.files.walk(path, sandbox=link.paths.sandbox)
    return [name for each in walked.entries if (name := _wanted(each, path, glob)) is not None], walked.truncated


def _wanted(entry: WalkEntry, top: str, glob: str | None) -> str | None:
    if entry.kind != "file":
        return None
    name = native_path(entry.path)
    below = posixpath.relpath(name, top)
    if is_within(posixpath.join("/", below), "/.git") or "/.git/" in name:
        return None
    return name if glob is None or matches_glob(below, glob) else None


def matches_glob(path: str, glob: str) -> bool:
    """Whether a relative path is like a glob: one without a slash is for the name alone, as with ripgrep."""
    if "/" not in glob:
        return fnmatch.fnmatchcase(posixpath.basename(path), glob)
    wanted = glob.lstrip("/")
    return fnmatch.fnmatchcase(path, wanted) or (wanted.startswith("**/") and fnmatch.fnmatchcase(path, wanted[3:]))


def grep_match(line: str, known: set[str]) -> Match | None:
    """A line of `grep -nH` about one of the `known` files; their names may contain colons."""
    at = line.find(":")
    while at >= 0:
        number, colon, text = line[at + 1 :].partition(":")
        if colon and number.isdigit() and line[:at] in known:
            return Match(line[:at], int(number), _shown(text))
        at = line.find(":", at + 1)
    return None


# -- both -------------------------------------------------------------------------------------------------------


async def _matches(link: Link, argv: list[str], parse: Callable[[str], Match | None]) -> AsyncGenerator[Match, None]:
    """What a program finds; it is killed when nobody wants more.

    Raises ToolError with what it complains of, if it fails and has found nothing: status 1 is no failure.
    """
    process = await link.environment.processes.start(argv, cwd=link.paths.base, sandbox=link.paths.sandbox)
    found = False
    async with process:
        errors = asyncio.create_task(_beginning(process.stderr))
        try:
            async for line in process.stdout.lines():
                match = parse(line)
                if match is not None:
                    found = True
                    yield match
            status = await process.wait()
            said = (await errors).decode("utf-8", "replace").strip()
        finally:
            errors.cancel()
    if status > 1 and said and not found:
        raise ToolError(f"{argv[0]} cannot search: {' '.join(said.split())[:LINE_CHARS]}")


async def _beginning(stream: OutputStream) -> bytes:
    """The first COMPLAINT_BYTES of a stream, which is read to its end."""
    kept = b""
    async for chunk in stream:
        kept += chunk[: COMPLAINT_BYTES - len(kept)]
    return kept


def _shown(text: str) -> str:
    line = text.rstrip("\r\n")
    return line if len(line) <= LINE_CHARS else line[:LINE_CHARS] + "…"


SEARCH_TOOLS = (
    Tool(
        "search_files",
        "Search files",
        "Find lines that match pattern in the files below path, or files whose name is like glob. Skips .git and, with "
        "ripgrep, what .gitignore names.",
        SearchArguments,
        SearchResult,
        ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        search_files,
    ),
)
