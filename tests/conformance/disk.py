"""What was on the recorded machine's disk, and what the recorded client did to it between its requests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def build(folder: Path) -> None:
    """All folders that the traces about files know; called anew, it undoes what a trace did to `fs`."""
    shutil.rmtree(folder / "fs", ignore_errors=True)
    _tree(folder / "fs")
    for name in ("io", "nf/d", "wm/sub"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("q1", "q3", "rep-old"):
        (folder / "io" / name).write_text("old and long enough")
    (folder / "io/f").write_bytes(bytes(range(200)))
    (folder / "io/big").write_bytes(bytes(2 << 20))
    (folder / "nf/f").write_text("x")
    (folder / "nf" / "é ü#?%&+").touch()
    for link, target in (("l", "f"), ("ld", "d")):
        if not os.path.lexists(folder / "nf" / link):
            (folder / "nf" / link).symlink_to(target)


def _tree(fs: Path) -> None:
    for name in ("d/.hd", "d/sub/deep"):
        (fs / name).mkdir(parents=True)
    files = {"f": b"hello", "empty": b"", "sp ace": b"sp", "bin": bytes(range(256)), os.fsdecode(b"bad\xff"): b""}
    files |= dict.fromkeys(("d/a", "d/.hid", "d/.hd/x", "d/sub/b", "d/sub/deep/c"), b"")
    for name, content in files.items():
        (fs / name).write_bytes(content)
    links = {"ln": "f", "lnd": "d", "loop": "loop", "dangling": "target", "d/la": "a", "d/lsub": "sub"}
    for name, target in links.items():
        (fs / name).symlink_to(target)
    os.mkfifo(fs / "fifo")


def build_denied(folder: Path) -> None:
    """What nobody but root may read or change."""
    (folder / "nr/locked").mkdir(parents=True)
    (folder / "nr/home").mkdir()
    (folder / "nr/locked/in").touch()
    (folder / "nr/secret").write_text("x")
    (folder / "nr/secret").chmod(0o000)
    (folder / "nr/locked").chmod(0o000)
    (folder / "nr").chmod(0o555)


def open_again(folder: Path) -> None:
    """So that it can be removed."""
    (folder / "nr").chmod(0o755)
    (folder / "nr/locked").chmod(0o755)


Action = Callable[[Path], object]

BEFORE: dict[tuple[str, int], Action] = {
    ("fs/all", 37): lambda folder: (folder / "fs/target").unlink(),
    ("fs/all", 102): build,
}
"""Trace and number of a message -> what was done before it."""

AT_THE_END: dict[str, Action] = {
    "fs/watchMissing-absent-file": lambda folder: (folder / "wm/a").touch(),
    "fs/watchMissing-absent-2": lambda folder: (folder / "wm/c/d").mkdir(parents=True),
    "fs/watchMissing-present": lambda folder: (folder / "wm/sub").rmdir(),
    "fs/watchMissing-multi": lambda folder: [(folder / "wm" / name).touch() for name in ("m1", "m2", "m3")],
}
"""What was done when everything was answered."""

AT_FIRST: dict[str, Action] = {"fs/watchMissing-existing": lambda folder: (folder / "wm/a").touch()}
"""What was there besides."""
