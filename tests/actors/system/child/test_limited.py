"""A command that starts through the launcher is the one that was asked for."""

from __future__ import annotations

from pathlib import Path

from protocol.process import ResourceLimits
from tests.actors.system.child.support import run

LIMITS = ResourceLimits(cpu_seconds=7, open_files=99)


def test_its_limits_are_set_and_its_signals_are_as_those_of_any_other() -> None:
    """Lost: `yes | head` ends with an error where SIGPIPE is ignored, as Python does for itself."""
    script = "ulimit -t; ulimit -n; grep -h SigIgn /proc/self/status"
    status, out, err = run("sh", "-c", script, limits=LIMITS, env={"PATH": "/usr/bin:/bin", "X": "=1"})
    assert (status.code, err) == (0, b"")
    assert out.split() == [b"7", b"99", b"SigIgn:", b"0000000000000000"]


def test_a_script_without_an_interpreter_goes_to_the_shell(tmp_path: Path) -> None:
    """Lost: scripts that run without limits and fail with them."""
    script = tmp_path / "script"
    script.write_text("echo $0 $1\n")
    script.chmod(0o755)
    assert run(str(script), "a", limits=LIMITS)[1] == f"{script} a\n".encode()
