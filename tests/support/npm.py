"""Programs out of npm packages, fetched into a cache outside of the checkout; npm checks their digests."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

_FILES = ("package.json", "package-lock.json")
_TIMEOUT_S = 600
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class NotInstalled(Exception):
    """The programs are not in the cache and cannot be put there; the text says why."""


def modules(packages: Path, name: str) -> Path:
    """The folder `node_modules` of what the lock file in the folder `packages` names, installed if it is not there;
    `name` is that of the folder in the cache, with a digest of the lock file.

    Raises NotInstalled without npm and without the packages.
    """
    target = _cached(packages, name)
    if not target.exists():
        if shutil.which("npm") is None:
            raise NotInstalled(f"npm is needed to fetch what {packages} names, and there is none in PATH")
        _install(packages, target)
    return target / "node_modules"


def node(modules: Path) -> Path:
    """Node out of its package. Raises NotInstalled for machines that there is none for."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise NotInstalled(f"there is no package of Node for {platform.machine()}")
    return modules / f"node-linux-{machine}" / "bin" / "node"


def _cached(packages: Path, name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(b"".join((packages / file).read_bytes() for file in _FILES)).hexdigest()[:16]
    return Path(base) / "exec-server-tests" / f"{name}-{digest}"


def _install(packages: Path, target: Path) -> None:
    """Install beside the target, then rename: a cut install leaves no half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for file in _FILES:
            shutil.copy(packages / file, folder)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"npm did not fetch what {packages} names within {_TIMEOUT_S} s") from None
        if done.returncode != 0:
            raise NotInstalled(f"npm cannot fetch what {packages} names: {' | '.join(done.stderr.splitlines())[:300]}")
        try:
            os.rename(folder, target)
        except OSError:
            if not target.exists():  # else somebody else was faster
                raise
        else:
            os.mkdir(folder)  # for the end of the block
