"""Push and pull: a folder to another machine and back, with nothing installed there but a server.

    python -m examples.push_pull URL push LOCAL REMOTE
    python -m examples.push_pull URL pull REMOTE LOCAL

A script without an event loop. Files of any size go in blocks, in bounded memory; links are left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from exec_server import ExecServerError, sync

BLOCK = 1 << 20


def push(files: sync.Files, source: Path, destination: str) -> int:
    """Copy a folder to the server; how many bytes of files there were."""
    copied = 0
    files.mkdir(destination, parents=True)
    for entry in sorted(os.scandir(source), key=lambda each: each.name):
        there = f"{destination}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            copied += push(files, Path(entry), there)
        elif entry.is_file(follow_symlinks=False):
            with open(entry, "rb") as file, files.open(there, "replace") as target:
                while block := file.read(BLOCK):
                    target.write(block)
                    copied += len(block)
        else:
            print(f"left out: {entry.path}", file=sys.stderr)
    return copied


def pull(files: sync.Files, source: str, destination: Path) -> int:
    """Copy a folder from the server; how many bytes of files there were."""
    copied = 0
    destination.mkdir(parents=True, exist_ok=True)
    for entry in files.list(source):
        there, here = f"{source}/{entry.file_name}", destination / entry.file_name
        # Names come from another machine, which need not mean well.
        if os.path.basename(entry.file_name) != entry.file_name or files.metadata(there).is_symlink:
            print(f"left out: {there}", file=sys.stderr)
        elif entry.is_directory:
            copied += pull(files, there, here)
        elif entry.is_file:
            with here.open("wb") as file, files.open(there) as blocks:
                for block in blocks:
                    copied += file.write(block)
    return copied


def main(url: str, direction: str, source: str, destination: str) -> int:
    """The exit status."""
    with sync.Environment.create(url) as environment:
        try:
            if direction == "push":
                copied = push(environment.files, Path(source), destination)
            else:
                copied = pull(environment.files, source, Path(destination))
        except (ExecServerError, OSError) as error:
            print(f"{direction} failed: {error}", file=sys.stderr)
            return 1
    print(f"{copied} bytes")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[2] not in ("push", "pull"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
