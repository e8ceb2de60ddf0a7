"""Packages of npm that the page is made of: which files of them, in which version, and how they are compared."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent.parent.parent / "web" / "vendor"
MANIFEST: Final = FOLDER / "manifest.json"
_TIMEOUT_S: Final = 120

XTERM: Final = "@xterm/"
WANTED: Final = {
    "@xterm/xterm": ("6.0.0", ("lib/xterm.mjs", "css/xterm.css")),
    "@xterm/addon-clipboard": ("0.2.0", ("lib/addon-clipboard.mjs",)),
    "@xterm/addon-fit": ("0.11.0", ("lib/addon-fit.mjs",)),
    "@xterm/addon-search": ("0.16.0", ("lib/addon-search.mjs",)),
    "@xterm/addon-serialize": ("0.14.0", ("lib/addon-serialize.mjs",)),
    "@xterm/addon-unicode-graphemes": ("0.4.0", ("lib/addon-unicode-graphemes.mjs",)),
    "@xterm/addon-web-links": ("0.12.0", ("lib/addon-web-links.mjs",)),
    "@xterm/addon-webgl": ("0.19.0", ("lib/addon-webgl.mjs",)),
}
"""Name of each package, its version, and the files that the page needs; its LICENSE comes too, if it has one."""


class PackageError(Exception):
    """npm does not give a package, or not all of it; the text says why."""


class Package(NamedTuple):
    """What is taken of a package: `files` by their paths in `web/vendor`."""

    name: str
    version: str
    licence: str
    integrity: str
    files: dict[str, bytes]


def fetch_all() -> list[Package]:
    """All that is wanted, from npm. Raises PackageError."""
    return [_fetch(name, version, files) for name, (version, files) in WANTED.items()]


def write(packages: list[Package]) -> None:
    """Put the files, and the manifest, where they belong."""
    for package in packages:
        for path, content in package.files.items():
            target = FOLDER / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    MANIFEST.write_text(json.dumps(manifest_of(packages), indent=2) + "\n")


def manifest_of(packages: list[Package]) -> dict[str, Any]:
    """What is there and where it is from: version, licence, npm's digest, and the SHA-256 of each file."""
    return {
        package.name: {
            "version": package.version,
            "licence": package.licence,
            "integrity": package.integrity,
            "sha256": {path: hashlib.sha256(content).hexdigest() for path, content in package.files.items()},
        }
        for package in packages
    }


def differences(packages: list[Package]) -> list[str]:
    """What in `web/vendor` is not what npm has, a line each."""
    found = [] if json.loads(MANIFEST.read_text()) == manifest_of(packages) else ["manifest.json is of others"]
    expected = {path: content for package in packages for path, content in package.files.items()}
    for path, content in expected.items():
        file = FOLDER / path
        if not file.exists() or file.read_bytes() != content:
            found.append(f"{path} is not what npm has")
    return found


def _fetch(name: str, version: str, files: tuple[str, ...]) -> Package:
    with tempfile.TemporaryDirectory() as folder:
        npm = ["npm", "pack", "--json", f"{name}@{version}", "--pack-destination", folder]
        try:
            done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PackageError(f"npm cannot fetch {name}@{version}: {error}") from None
        if done.returncode != 0:
            raise PackageError(f"npm cannot fetch {name}@{version}: {' | '.join(done.stderr.splitlines())[:300]}")
        (archive,) = Path(folder).glob("*.tgz")
        packed = archive.read_bytes()
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
        with tarfile.open(archive) as content:
            about = json.loads(_member(content, "package.json"))
            licence = ("LICENSE",) if "package/LICENSE" in content.getnames() else ()
            taken = {_path(name, file): _member(content, file) for file in (*files, *licence)}
    return Package(name, version, about["license"], integrity, taken)


def _path(package: str, file: str) -> str:
    return f"{package.removeprefix(XTERM)}/{Path(file).name}"


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        file = archive.extractfile(f"package/{name}")
    except KeyError:
        file = None
    if file is None:
        raise PackageError(f"the package has no {name}")
    return file.read()
