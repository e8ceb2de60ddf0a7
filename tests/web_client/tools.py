"""Node 22 and the TypeScript compiler, fetched with npm into a cache outside of the checkout."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_FILES = ("package.json", "package-lock.json")
_TIMEOUT_S = 600
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class NotInstalled(Exception):
    """The tools are not in the cache and cannot be put there; the text says why."""


def cache() -> Path:
    """Where the tools of today's lock file are, or will be: a folder of 210 MB."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(b"".join((_HERE / name).read_bytes() for name in _FILES)).hexdigest()[:16]
    return Path(base) / "exec-server-tests" / f"web-{digest}"


def modules() -> Path:
    """The folder `node_modules` of the tools, installed if it is not there.

    Raises NotInstalled without npm and without the packages; npm checks their digests against the lock file.
    """
    target = cache()
    if not target.exists():
        if shutil.which("npm") is None:
            raise NotInstalled("npm is needed to fetch Node and TypeScript, and there is none in PATH")
        _install(target)
    return target / "node_modules"


def node() -> Path:
    """Node 22. Raises NotInstalled as `modules` does, and for machines that it is not made for."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise NotInstalled(f"there is no package of Node for {platform.machine()}")
    return modules() / f"node-linux-{machine}" / "bin" / "node"


def _install(target: Path) -> None:
    """Install beside the target, then rename: a cut install leaves no half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name in _FILES:
            shutil.copy(_HERE / name, folder)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"npm did not fetch the tools within {_TIMEOUT_S} s") from None
        if done.returncode != 0:
            raise NotInstalled(f"npm cannot fetch the tools: {' | '.join(done.stderr.splitlines())[:300]}")
        try:
            os.rename(folder, target)
        except OSError:
            if not target.exists():  # else somebody else was faster
                raise
        else:
            os.mkdir(folder)  # for the end of the block
