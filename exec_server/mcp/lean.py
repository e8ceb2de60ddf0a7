"""The `mcp` package without its client and its decorators, which its front doors (`mcp`, `mcp.server`) import: 11 MB,
and a third of the start, that a server does not need. For a program of its own only, before it has imported any of it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec

FRONT_DOORS = ("mcp", "mcp.server")


def import_lean(name: str) -> None:
    """Import a module of ours that uses `mcp`. Where it cannot do without the front doors, they are opened."""
    if "mcp" in sys.modules:
        return
    _set_aside()
    try:
        import_module(name)
    except ImportError:
        for loaded in [each for each in sys.modules if each == "mcp" or each.startswith(("mcp.", "exec_server.mcp."))]:
            if loaded != __name__:
                del sys.modules[loaded]


def _set_aside() -> None:
    """Put packages in the places of the front doors that lead to the same modules and import nothing."""
    for name in FRONT_DOORS:
        spec = find_spec(name)
        if spec is None:
            raise ImportError(f"No module named {name!r}", name=name)
        package = sys.modules[name] = module_from_spec(spec)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
