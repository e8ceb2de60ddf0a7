"""A walk over folders of this machine: the same as a server makes it, by `fs/walk`. Blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct


class Below(Struct, frozen=True):
    """A file or folder that a walk has found, by its absolute path."""

    path: str
    kind: Literal["file", "folder"]


class Walk(Struct, frozen=True):
    """What is below a folder: breadth first, the children of a folder by name. `unreadable` are the folders that could
    not be read, with the reason; `truncated`: there is more than the bounds allow.
    """

    found: tuple[Below, ...]
    unreadable: tuple[str, ...]
    truncated: bool


def walk(path: str, max_depth: int, max_folders: int, max_entries: int) -> Walk:
    """See `Reader.walk`. Raises OSError for a path where nothing is, or that may not be looked at."""
    os.stat(path)
    found: list[Below] = []
    unreadable: list[str] = []
    waiting = deque([(path, 0)] if os.path.isdir(path) else [])
    seen: set[tuple[int, int]] = set()
    folders = 0
    while waiting:
        if folders == max_folders:
            return Walk(tuple(found), tuple(unreadable), True)
        folder, depth = waiting.popleft()
        try:
            status = os.stat(folder)
            identity = status.st_dev, status.st_ino
            if identity in seen:
                continue
            seen.add(identity)
            folders += 1
            children = sorted(_children(folder), key=lambda each: os.fsencode(each.path))
        except OSError as error:
            unreadable.append(f"{folder}: {error.strerror}")
            continue
        room = max_entries - len(found)
        found += children[:room]
        if len(children) > room:
            return Walk(tuple(found), tuple(unreadable), True)
        if depth < max_depth:
            waiting += [(each.path, depth + 1) for each in children if _is_entered(each)]
    return Walk(tuple(found), tuple(unreadable), False)


def _children(folder: str) -> Iterator[Below]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_folder(entry):
                yield Below(entry.path, "folder")
            elif entry.is_file(follow_symlinks=False):
                yield Below(entry.path, "file")


def _is_entered(found: Below) -> bool:
    return found.kind == "folder" and not os.path.basename(found.path).startswith(".")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads in a circle, or where we may not go
