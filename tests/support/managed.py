"""Managed sandboxes as clients send them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

ROOT = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
"""All may be read."""
ROOTS = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
"""The workspace may be written to."""


def entry(path: Path | str, access: str) -> dict[str, Any]:
    """An entry for one path."""
    return {"path": {"type": "path", "path": str(path)}, "access": access}


def managed(workspace: Path, *more: dict[str, Any], network: str = "restricted", reads: bool = True) -> dict[str, Any]:
    """What the real CLI sends for a workspace, and more entries; `reads` False: the rest is not there at all."""
    need_bubblewrap()
    entries = [ROOT, ROOTS, *more] if reads else [ROOTS, *more]
    return {
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": network,
        },
        "cwd": workspace.as_uri(),
        "workspaceRoots": [workspace.as_uri()],
        "windowsSandboxLevel": "disabled",
        "useLegacyLandlock": False,
    }


def need_bubblewrap() -> None:
    """Fail where no sandbox can be tested: it must not look as if it had been."""
    assert shutil.which("bwrap"), "these tests need bwrap: apt-get install bubblewrap"
