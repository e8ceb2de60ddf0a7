"""What `import harness` costs, and what it brings (harness-spec 7)."""

from __future__ import annotations

import subprocess
import sys

import harness

PARTS = ("msgspec", "yaml", "filelock", "semver", "PIL", "cyclopts", "asyncio", "prometheus_client", "exec_server")


def test_the_import_loads_nothing() -> None:
    """Lost: the start of every agent that uses one part of it."""
    code = f"import sys, harness; print([name for name in {PARTS!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"[]\n"


def test_no_part_brings_the_server() -> None:
    """An agent is a client: what serves commands is not loaded for one whose machine is elsewhere."""
    code = (
        "import sys, harness\n"
        "for name in harness.__all__: getattr(harness, name)\n"
        "print([name for name in ('thespian', 'actors', 'transport', 'PIL', 'prometheus_client', 'cyclopts') "
        "if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code]) == b"[]\n"


def test_every_public_name_is_there() -> None:
    assert {name: getattr(harness, name) for name in harness.__all__}.keys() <= set(dir(harness))
    assert not hasattr(harness, "no_such_name")
