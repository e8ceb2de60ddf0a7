"""The client's program, fetched with npm into a cache outside of the checkout."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.171.0"
PACKAGE = f"@openai/codex@{VERSION}-linux-x64"
INTEGRITY = "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw=="
"""The package's digest as npm gives it: nothing else is run."""
_PROGRAM = Path("package/vendor/x86_64-unknown-linux-musl/bin/codex")
_TIMEOUT_S = 600


class NotInstalled(Exception):
    """The client is not in the cache and cannot be put there; the text says why."""


def cache() -> Path:
    """Where the unpacked package is, or will be: a folder of 420 MB."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "exec-server-tests" / f"codex-{VERSION}"


def codex() -> Path:
    """The path of the client's program, installed if it is not there.

    Raises NotInstalled without npm, without the package, and on machines that it is not made for.
    """
    program = cache() / _PROGRAM
    if not program.exists():
        if platform.machine() != "x86_64":
            raise NotInstalled(f"{PACKAGE} is made for x86_64, this machine is {platform.machine()}")
        if shutil.which("npm") is None:
            raise NotInstalled(f"npm is needed to fetch {PACKAGE}, and there is none in PATH")
        _install(cache())
    return program


def _install(target: Path) -> None:
    """Fetch and unpack beside the target, then rename: a cut install leaves no half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        with tarfile.open(_packed(Path(folder))) as archive:
            archive.extractall(Path(folder) / "unpacked", filter="data")
        if not (Path(folder) / "unpacked" / _PROGRAM).exists():
            raise NotInstalled(f"{PACKAGE} has no {_PROGRAM}")
        shutil.rmtree(target, ignore_errors=True)
        os.rename(Path(folder) / "unpacked", target)


def _packed(folder: Path) -> Path:
    """The package as a file, its digest checked."""
    npm = ["npm", "pack", PACKAGE, "--pack-destination", str(folder)]
    try:
        done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not fetch {PACKAGE} within {_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise NotInstalled(f"npm cannot fetch {PACKAGE}: {' | '.join(done.stderr.splitlines())[:300]}")
    (package,) = folder.glob("*.tgz")
    with package.open("rb") as content:
        digest = "sha512-" + base64.b64encode(hashlib.file_digest(content, "sha512").digest()).decode()
    if digest != INTEGRITY:
        raise NotInstalled(f"the digest of {PACKAGE} is {digest}, not {INTEGRITY}")
    return package
