"""A server that is attacked: what it must have come back to, and what it complained of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO

from tests.security.attacker import BEFORE_UPGRADE, STDIO, UPGRADED
from tests.security.grammar import SCRATCH
from tests.support.client import session
from tests.support.program import Program, eventually, program

MEMORY_S = 150.0
"""Seconds until what was in use must be given back: records go after their time, freed memory within a minute."""
REST_S = 80.0
"""Seconds in which a server comes to rest: its records go after 60, then what they took."""
MEMORY_ROOM = 48 << 20
"""By how many bytes the server may have grown after any number of bad inputs: caches, pools and the like."""

# Everything that is mounted becomes read-only, but for the scratch folder: should bad input ever name another
# path, nothing is lost.
_CONFINE = """
while test "$1" != --; do
    mount --bind "$1" "$1" && folders="$folders $1 "
    shift
done
findmnt -rno TARGET | while read -r each; do
    case "$folders" in *" $each "*) ;; *) mount -o remount,bind,ro "$each" 2>/dev/null;; esac
done
shift
exec "$@"
"""


@cache
def confining(*folders: str) -> tuple[str, ...]:
    """What to put before a command, so that it can write to these folders alone; nothing where the kernel forbids."""
    mapped = [] if os.getuid() == 0 else ["--map-root-user"]
    prefix = ("unshare", *mapped, "--mount", "sh", "-c", _CONFINE, "sh", *folders, "--")
    try:
        works = subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True, timeout=20).returncode == 0
    except FileNotFoundError:
        works = False
    return prefix if works else ()


class Target:
    """A server program with a log, and the scratch folder that bad input may name."""

    def __init__(self, server: Program, log: IO[bytes]) -> None:
        self.server = server
        self.hits: Counter[tuple[str, str]] = Counter()
        self._log = log
        asyncio.run(self.serves())
        self.complaints()  # it says where it listens
        self._load = server.load()
        self._memory = server.rss()

    def complaints(self) -> str:
        """What it has logged since this was asked last: errors alone, so it should be nothing."""
        return self._log.read().decode(errors="replace")

    async def serves(self) -> None:
        """A good client gets what it asks for. Raises what it met instead."""
        async with session(self.server.url) as client:
            ended = await client.run("good", "/bin/echo", "hi")
            assert ended.stdout == b"hi\n"

    def settle(self) -> None:
        """After the warm-up: the least that is there in REST_S counts as what was there before."""
        asyncio.run(self.serves())
        end = time.monotonic() + REST_S
        self._memory = self.server.rss()
        while time.monotonic() < end:
            time.sleep(0.5)
            self._memory = min(self._memory, self.server.rss())

    async def recovers(self, room: int = MEMORY_ROOM) -> str:
        """It serves, and has no more descriptors, threads and children than before, and hardly more memory; figures."""
        await self.serves()
        await self.server.falls_to(self._load)
        await eventually(
            lambda: self.server.rss() - self._memory < room, f"it shrinks to {self._memory >> 20} MiB", MEMORY_S
        )
        before, now = self._load, self.server.load()
        return (
            f"descriptors {before[0]} -> {now[0]}, threads {before[1]} -> {now[1]}, children {before[2]} -> {now[2]}, "
            f"memory {self._memory / 2**20:.1f} -> {self.server.rss() / 2**20:.1f} MiB"
        )


def fill_scratch() -> None:
    """Make the scratch folder anew; bad input has perhaps made something else of it."""
    folder = Path(SCRATCH)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    (folder / "a b").mkdir()
    (folder / "file").write_bytes(b"content")
    (folder / "loop").symlink_to("loop")


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """The scratch folder, for a while."""
    fill_scratch()
    try:
        yield
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


@contextlib.contextmanager
def target(*flags: str, folders: tuple[str, ...] = ()) -> Iterator[Target]:
    """A server to be attacked. Its sessions and records go soon; only errors are logged, and none may be. It can
    write to `folders` too."""
    environ = {**os.environ, "TMPDIR": SCRATCH}
    flags = ("--log-level", "error", "--process-retention", "0", "--session-ttl", "1", "--grace", "0", *flags)
    with (
        scratch(),
        tempfile.NamedTemporaryFile() as log,
        program(*flags, prefix=confining(SCRATCH, *folders), stderr=log.fileno(), env=environ) as server,
        open(log.name, "rb") as read,
    ):
        yield Target(server, read)


def table(hits: Counter[tuple[str, str]]) -> list[str]:
    """States by kinds, how often each pair was hit."""
    hit = {state for state, _ in hits}
    states = [state for state in (*BEFORE_UPGRADE, *UPGRADED, *STDIO) if state in hit]
    kinds = sorted({kind for _, kind in hits})
    width = max(map(len, kinds))
    lines = [" " * width + "".join(f" {state.removeprefix('stdio: '):>17}" for state in states) + f" {'all':>10}"]
    for kind in kinds:
        counts = [hits[state, kind] for state in states]
        lines.append(f"{kind:<{width}}" + "".join(f" {count or '-':>17}" for count in counts) + f" {sum(counts):>10}")
    sums = [sum(count for (state, _), count in hits.items() if state == each) for each in states]
    return [*lines, f"{'all':<{width}}" + "".join(f" {count:>17}" for count in sums) + f" {sum(sums):>10}"]
