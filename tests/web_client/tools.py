"""Node 22 and the TypeScript compiler: a folder of 210 MB in the cache."""

from __future__ import annotations

from pathlib import Path

from tests.support import npm
from tests.support.npm import NotInstalled as NotInstalled

_HERE = Path(__file__).parent


def modules() -> Path:
    """The folder `node_modules` of the tools. Raises NotInstalled."""
    return npm.modules(_HERE, "web")


def node() -> Path:
    """Node 22. Raises NotInstalled."""
    return npm.node(modules())
