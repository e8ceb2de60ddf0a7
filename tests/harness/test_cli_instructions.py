"""`exec-harness instructions` and `skills`: what a user sees of what a model is told (harness-spec 4.4, 4.5, 7)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import ROOT, Program, program

MAIN = "from harness.cli import main; main()"


class Project:
    """A project, the home of its user, and the program in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "project"
        self.write("project/.git/HEAD", "")
        self.write("project/AGENTS.md", "root\n")
        self.write("project/src/AGENTS.md", "abcdef\n")
        self.write("project/.agents/skills/lint/SKILL.md", "---\ndescription: Check.\n---\n")
        self.write("project/src/.agents/skills/bad/SKILL.md", "nothing\n")
        self.write(".agents/skills/own/SKILL.md", "---\ndescription: Mine.\n---\n")

    def write(self, path: str, text: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(text)

    def run(self, *words: str, status: int = 0) -> tuple[str, list[str]]:
        """What is printed, and the lines on stderr."""
        ran = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            cwd=self.root / "src",
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "HOME": str(self.home),
                "EXEC_SERVER_LOG_LEVEL": "error",
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == status, ran.stderr
        return ran.stdout, ran.stderr.splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


@pytest.fixture(scope="module")
def server() -> Iterator[Program]:
    with program() as running:
        yield running


def test_what_a_model_is_told(project: Project, server: Program) -> None:
    """The same of a folder here and behind a server; what is cut is told with its file."""
    project.write("home/AGENTS.md", "Be brief.\n")
    here = project.run("instructions", "show", "--home", str(project.home / "home"))
    assert here[0] == "Be brief.\n\n--- project-doc ---\n\nroot\n\nabcdef\n"
    assert here[1] == [
        f"exec-harness: {project.home}/home/AGENTS.md: 10 bytes",
        f"exec-harness: {project.root}/AGENTS.md: 5 bytes",
        f"exec-harness: {project.root}/src/AGENTS.md: 7 bytes",
    ]
    there = project.run(
        *("instructions", "show", str(project.root / "src"), "--url", server.url),
        *("--home", str(project.home / "home")),
    )
    assert there == here


def test_what_is_cut(project: Project) -> None:
    """4.4: the nearest file is kept, and the user is told."""
    printed, said = project.run("instructions", "show", "--limit", "8")
    assert "abcdef" in printed and said == [
        f"exec-harness: {project.root}/AGENTS.md: 5 bytes, 5 of them left out",
        f"exec-harness: {project.root}/src/AGENTS.md: 7 bytes",
    ]
    found = json.loads(project.run("instructions", "show", "--limit", "8", "--json")[0])
    assert found["sources"][0] == {"path": f"{project.root}/AGENTS.md", "origin": "project", "size": 5, "used": 0}


def test_nothing_to_tell(project: Project) -> None:
    assert project.run("instructions", "show", "/") == ("", ["exec-harness: there are no instructions"])
    assert project.run("instructions", "show", "--limit", "0")[1] == ["exec-harness: there are no instructions"]


def test_folders_and_servers_that_are_not_there(project: Project, server: Program) -> None:
    """One line, no traceback."""
    for words in (("none",), ("/none", "--url", server.url), (".", "--url", "ws://127.0.0.1:1"), (".", "--url", "x")):
        printed, said = project.run("instructions", "show", *words, status=1)
        assert printed == "" and len(said) == 1 and said[0].startswith("exec-harness: ") and "fault" not in said[0]


def test_skills_that_a_model_is_offered(project: Project, server: Program) -> None:
    """4.5: one that cannot be used is told."""
    printed, said = project.run("skills", "list", "--json")
    assert [(each["name"], each["scope"]) for each in json.loads(printed)] == [("lint", "repo"), ("own", "user")]
    assert len(said) == 1 and "src/.agents/skills/bad/SKILL.md" in said[0]
    there = project.run("skills", "list", str(project.root / "src"), "--url", server.url, "--json")
    assert there == (printed, said)
    table = project.run("skills", "list")[0].splitlines()
    assert table[0].split() == ["SKILL", "SCOPE", "FILE", "DESCRIPTION"] and table[1].startswith("lint   repo")
