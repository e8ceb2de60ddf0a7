"""`exec-harness instructions` and `skills`: what a model is told in a folder, and offered."""

from __future__ import annotations

import asyncio
import json as json_module
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import cyclopts
from cyclopts import Parameter

from exec_server.cli.table import table
from exec_server.printable import printable
from harness.cli.ending import Home, Json, home_of, tell
from harness.context.instructions import DEFAULT_LIMIT, Instructions, Source, load_instructions
from harness.context.skills import SkillRoot, Skills, load_skills, project_skill_roots
from harness.plugins.namespace import Namespaces
from harness.reader import EnvironmentReader, LocalReader, Reader

app = cyclopts.App(name="instructions", help="Look at what a model is told in a folder.", result_action="return_value")
skills = cyclopts.App(name="skills", help="Look at what a model is offered in a folder.", result_action="return_value")

Url = Annotated[
    str | None,
    Parameter(
        name="--url", help="The server whose machine has the folder: `ws://HOST:PORT`; without it, this machine."
    ),
]


class Place(NamedTuple):
    """A folder, absolute, and what reads it."""

    reader: Reader
    folder: str


@app.command
def show(
    folder: str = ".", /, *, url: Url = None, limit: int = DEFAULT_LIMIT, home: Home = None, json: Json = False
) -> int:
    """Print what a model is told in a folder: the user's own AGENTS.md, and those of the project, its root's first. On
    standard error: each file, and how many of its bytes are left out.

    Parameters
    ----------
    folder
        The folder that it works in.
    limit
        Bytes of all files of the project together, and of the user's own; the nearest ones count first.
    """
    found = asyncio.run(_instructions(folder, url, limit, home_of(home).absolute())) or Instructions("")
    if json:
        sources = [{"path": s.path, "origin": s.origin, "size": s.size, "used": s.used} for s in found.sources]
        told = {"text": found.text, "sources": sources, "warnings": found.warnings}
        print(json_module.dumps(told, ensure_ascii=False, indent=2))
        return 0
    if found.text:
        print(found.text, flush=True)
    for source in found.sources:
        tell(_told(source))
    for warning in found.warnings:
        tell(warning)
    if not found.sources:
        tell("there are no instructions")
    return 0


@skills.command(name="list")
def list_(folder: str = ".", /, *, url: Url = None, json: Json = False) -> int:
    """List the skills that a model is offered in a folder: those of the project, and the user's own.

    Parameters
    ----------
    folder
        The folder that it works in.
    """
    found = asyncio.run(_skills(folder, url))
    for problem in (*found.errors, *found.warnings):
        tell(problem)
    if json:
        told = [{"name": s.name, "description": s.description, "scope": s.scope, "path": s.path} for s in found.skills]
        print(json_module.dumps(told, ensure_ascii=False, indent=2))
        return 0
    rows = [(skill.name, skill.scope, printable(skill.path), skill.description) for skill in found.skills]
    print(table(("SKILL", "SCOPE", "FILE", "DESCRIPTION"), rows), end="")
    return 0


def _told(source: Source) -> str:
    missing = source.size - source.used
    cut = f", {missing} of them left out" if missing else ""
    return f"{source.path}: {source.size} bytes{cut}"


async def _instructions(folder: str, url: str | None, limit: int, home: Path) -> Instructions | None:
    async with _place(folder, url) as place:
        return await load_instructions(place.reader, place.folder, home=str(home), limit=limit)


async def _skills(folder: str, url: str | None) -> Skills:
    async with _place(folder, url) as place:
        roots = await project_skill_roots(place.reader, place.folder)
        own = SkillRoot(str(Path.home() / ".agents" / "skills"), "user", LocalReader())
        return await load_skills([*roots, own], Namespaces)


@asynccontextmanager
async def _place(folder: str, url: str | None) -> AsyncIterator[Place]:
    if url is None:
        reader = LocalReader()
        yield Place(reader, await reader.resolve(folder))
        return
    from exec_server import Environment

    async with Environment.create(url) as environment:
        yield Place(EnvironmentReader(environment), await environment.files.resolve(folder))
