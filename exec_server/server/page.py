"""Files of the web page, in memory as they go over the wire: page, client in JavaScript, and what is vendored."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path
from typing import Final

from transport.admission.web import StaticFile

CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
"""What is served, by the end of its name; nothing else is."""

FOLDERS: Final = {"page": "page", "client/src": "client", "vendor": "vendor"}
"""Folders of `web/`, and the paths that they are served under."""


def static_files() -> dict[str, StaticFile]:
    """Every file by its path on the server. Raises FileNotFoundError where the page was not installed."""
    root = _root()
    files = {}
    for folder, prefix in FOLDERS.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CONTENT_TYPES:
                files[f"/{prefix}/{path.relative_to(root / folder).as_posix()}"] = _file(path)
    files["/"] = files.pop("/page/index.html")
    return files


def _root() -> Path:
    """`web/`, in the package where it is installed, beside it in a checkout."""
    package = Path(__file__).parent.parent
    for root in (package / "web", package.parent / "web"):
        if (root / "page" / "index.html").is_file():
            return root
    raise FileNotFoundError("the page is not installed with this exec-server")


def _file(path: Path) -> StaticFile:
    body = path.read_bytes()
    packed = gzip.compress(body, 9, mtime=0)
    digest = sha256(body).hexdigest()[:32]
    return StaticFile(body, packed if len(packed) < len(body) else None, f'"{digest}"', CONTENT_TYPES[path.suffix])
