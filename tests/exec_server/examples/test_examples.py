"""The programs in examples/ run, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import ci_runner
from tests.support.program import ROOT, Program

PATIENCE_S = 60.0


def run(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """A program, as its docstring says it is run."""
    command = [sys.executable, "-m", f"examples.{name}", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_demo() -> None:
    """Lost: the first thing that anybody sees."""
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a new connection has resumed the session") == 2
    assert [*map(int, re.findall(r"tick (\d+)", done.stdout))] == [*range(1, 21)]
    assert "exited with code 7" in done.stdout
    assert done.stdout.endswith("left nothing behind.\n")


def test_the_demo_needs_nothing_but_the_program() -> None:
    """Lost: `make demo` where neither test nor lint tools are installed."""
    code = "import sys, examples.demo; print(sorted({'pytest', 'hypothesis', 'tests'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env={**os.environ}) == b"[]\n"


@pytest.mark.parametrize("where", ["server", "local"])
def test_the_ci_runner(server: Program, where: str) -> None:
    done = run("ci_runner", server.url if where == "server" else "local")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[:3] == ["ok    checkout", "ok    test", "FAIL  lint: exit status 1; its last lines:"]
    assert lines[3:8] == [f"      | source/answer.py:{n}: bad style" for n in range(26, 31)]
    assert lines[8] == "skip  deploy"


@pytest.mark.anyio
async def test_a_step_that_takes_too_long(server: Program, capsys: pytest.CaptureFixture[str]) -> None:
    job = (ci_runner.Step("hang", "echo waiting; sleep 1000", timeout=0.2), ci_runner.Step("never", "true"))
    assert await ci_runner.run_job(server.url, job) == 2
    assert capsys.readouterr().out == (
        "FAIL  hang: timed out after 0.2 s; its last lines:\n      | waiting\nskip  never\n"
    )


def test_push_and_pull(server: Program, tmp_path: Path) -> None:
    """Lost: a byte of a file."""
    source = tmp_path / "source"
    (source / "deep" / "deeper").mkdir(parents=True)
    (source / "small").write_bytes(b"milk\n")
    (source / "deep" / "deeper" / "large").write_bytes(os.urandom((2 << 20) + 7))
    (source / "link").symlink_to("/etc/passwd")
    there, back = tmp_path / "there", tmp_path / "back"
    pushed = run("push_pull", server.url, "push", str(source), str(there))
    assert (pushed.returncode, pushed.stdout) == (0, f"{5 + (2 << 20) + 7} bytes\n"), pushed.stderr
    assert pushed.stderr == f"left out: {source}/link\n"
    (there / "loop").symlink_to(there)
    pulled = run("push_pull", server.url, "pull", str(there), str(back))
    assert (pulled.returncode, pulled.stdout) == (0, pushed.stdout), pulled.stderr
    assert pulled.stderr == f"left out: {there}/loop\n"
    for path in ("small", "deep/deeper/large"):
        assert (back / path).read_bytes() == (source / path).read_bytes()
    missing = run("push_pull", server.url, "pull", str(tmp_path / "nothing"), str(back))
    assert missing.returncode == 1
    assert "nothing" in missing.stderr


@pytest.mark.parametrize("where", ["server", "local"])
def test_agent_tools(server: Program, where: str) -> None:
    done = run("agent_tools", *([server.url] if where == "server" else []))
    assert done.returncode == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if line.startswith("<")]
    assert answers[0] == '< {"output": "2\\n", "exit_code": 0}'
    assert '"process_id": 1001' in answers[1]
    assert "you said yes" in answers[2]
    assert "bytes omitted" in answers[3]
    assert answers[4] == '< {"error": "unknown process id 7"}'
