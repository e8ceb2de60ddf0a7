"""AGENTS.md: what the user and a project tell a model, in a folder of this machine or another.

Which files count, and how much of them, is pure; `load_instructions` reads them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from harness.errors import ReadError
from harness.reader import LocalReader, Reader
from harness.requests import for_each

NAMES = ("AGENTS.override.md", "AGENTS.md")
"""The first of these in a folder that is not blank is the folder's."""
PROJECT_MARKERS = (".git",)
DEFAULT_LIMIT = 32 << 10
"""Bytes, of all files of a project together, and of the user's own."""
SEPARATOR = "\n\n--- project-doc ---\n\n"
Origin = Literal["user", "project"]


class Source(Struct, frozen=True):
    """A file of instructions, and how many of its bytes are used."""

    path: str
    origin: Origin
    size: int
    used: int


class Instructions(Struct, frozen=True):
    """`text` is for the model, empty where there are only warnings. `sources` is where it is from: the user's own
    first, then from the project's root downwards. `warnings` are for the user: files that could not be read.
    """

    text: str
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()


class Content(Struct, frozen=True):
    """The beginning of a file, and how many bytes all of it has."""

    path: str
    size: int
    data: bytes

    @property
    def is_blank(self) -> bool:
        """Whether nothing is in it but white space."""
        return not self.data.decode(errors="replace").strip()


class Chosen(Struct, frozen=True):
    """The file of a folder, and what was wrong with others."""

    content: Content | None = None
    warnings: tuple[str, ...] = ()


async def load_instructions(
    reader: Reader,
    folder: str,
    *,
    home: str | None = None,
    home_reader: Reader | None = None,
    limit: int = DEFAULT_LIMIT,
    markers: Sequence[str] = PROJECT_MARKERS,
    names: Sequence[str] = (),
) -> Instructions | None:
    """The instructions that count in an absolute `folder` of the reader's machine; None if there are none, and for a
    `limit` of 0.

    They are one file of each folder from the project's root, the nearest ancestor with one of `markers`, down to
    `folder`, of the names NAMES and then `names`. Without a root, and without markers, only `folder` counts. `home` is
    the folder of the user's own, which `home_reader`, without one this machine, has.

    The bytes of the limit go to the nearest folder first. A file that does not fit is cut at a line, and one line says
    so. Raises ValueError for a relative folder, and what the reader raises when the machine cannot be reached.
    """
    if not folder.startswith("/"):
        raise ValueError(f"{folder!r} is no absolute path")
    if limit <= 0:
        return None
    wanted = (*NAMES, *names)
    own_reader = LocalReader() if home_reader is None else home_reader
    own = Chosen() if home is None else await _chosen(own_reader, home, wanted, limit)
    chain = await project_folders(reader, folder, markers)
    project = await for_each(lambda each: _chosen(reader, each, wanted, limit), chain)
    warnings = [warning for each in (own, *project) for warning in each.warnings]
    return assembled(own.content, [each.content for each in project if each.content is not None], limit, warnings)


async def project_folders(reader: Reader, folder: str, markers: Sequence[str] = PROJECT_MARKERS) -> list[str]:
    """The folders from the root of the project down to `folder`: the nearest ancestor that has one of `markers`, or
    `folder` alone.
    """
    folders = ancestors(folder)
    if not markers:
        return folders[:1]
    looked_at = [posixpath.join(each, marker) for each in folders for marker in markers]
    there = await for_each(lambda path: _is_there(reader, path), looked_at)
    root = there.index(True) // len(markers) if True in there else 0
    return folders[root::-1]


def ancestors(folder: str) -> list[str]:
    """An absolute folder and all above it, nearest first; links in it are not resolved."""
    folders = [posixpath.normpath(folder)]
    while (above := posixpath.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    return folders


def assembled(
    own: Content | None, project: Sequence[Content], limit: int, warnings: Sequence[str] = ()
) -> Instructions | None:
    """The instructions of these files, the project's from its root downwards. Pure."""
    texts: list[str] = []
    sources: list[Source] = []
    left = limit
    for content in reversed(project):
        text, used = fitted(content, left)
        left -= used
        texts.insert(0, text)
        sources.insert(0, Source(content.path, "project", content.size, used))
    whole = "\n\n".join(text.rstrip("\n") for text in texts)
    if own is not None:
        text, used = fitted(own, limit)
        sources.insert(0, Source(own.path, "user", own.size, used))
        whole = text.strip() + (SEPARATOR + whole if whole else "")
    return Instructions(whole, tuple(sources), tuple(warnings)) if sources or warnings else None


def fitted(content: Content, room: int) -> tuple[str, int]:
    """The text of a file in so many bytes, and how many of its own it has. Where some are missing, whole lines are, and
    one says so.
    """
    if content.size <= room and len(content.data) == content.size:
        return content.data.decode(errors="replace"), content.size
    kept = content.data[: content.data.rfind(b"\n", 0, room) + 1]
    missing = content.size - len(kept)
    note = f"[{missing} of the {content.size} bytes of {content.path} are left out: they are over the limit]"
    return kept.decode(errors="replace") + note, len(kept)


async def _chosen(reader: Reader, folder: str, names: Sequence[str], limit: int) -> Chosen:
    """The first file of a folder that is not blank."""
    warnings: list[str] = []
    for name in names:
        content = await _content(reader, posixpath.join(folder, name), limit, warnings)
        if content is not None and not content.is_blank:
            return Chosen(content, tuple(warnings))
    return Chosen(None, tuple(warnings))


async def _content(reader: Reader, path: str, limit: int, warnings: list[str]) -> Content | None:
    try:
        found = await reader.metadata(path)
        if found is None:
            return None
        data = await reader.read_at_most(path, limit + 1)
    except ReadError as error:
        warnings.append(str(error))
        return None
    is_whole = len(data) <= limit
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.end < len(data):
            warnings.append(f"{path}: it is not UTF-8 (byte {error.start})")
    return Content(path, len(data) if is_whole else max(found.size, len(data)), data)


async def _is_there(reader: Reader, path: str) -> bool:
    try:
        return await reader.metadata(path) is not None
    except ReadError:
        return False
