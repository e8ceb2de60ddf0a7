"""What instructions and skills of a machine elsewhere cost in requests (issue of the agent's side)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from exec_server import Environment
from harness import EnvironmentReader, Namespaces, load_instructions, load_skills, project_skill_roots
from harness.requests import AT_ONCE, for_each
from tests.support.program import program

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("folders", [200, pytest.param(2000, marks=pytest.mark.slow)])
async def test_a_workspace_of_many_folders(
    folders: int, tmp_path: Path, figures: Callable[[str, list[str]], None]
) -> None:
    """Lost: minutes before the first turn in a large workspace behind a slow connection."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("root")
    root = tmp_path / ".agents/skills"
    made = [root / f"a{number // 50}" / f"b{number % 50}" for number in range(folders - folders // 50 - 1)]
    for folder in made:
        folder.mkdir(parents=True)
    for folder in made[::100]:
        (folder / "SKILL.md").write_text("---\ndescription: d\n---\n")
    skills = len(made[::100])
    with program() as server:
        async with Environment.create(server.url) as environment:
            requests = counted(environment)
            reader = EnvironmentReader(environment)
            begun = perf_counter()
            instructions = await load_instructions(reader, str(tmp_path))
            of_instructions = requests.total()
            found = await load_skills(await project_skill_roots(reader, str(tmp_path)), Namespaces)
            took = perf_counter() - begun
    assert instructions is not None and instructions.text == "root"
    assert len(found.skills) == skills and not found.warnings and not found.errors
    ancestors = len(tmp_path.parts)
    assert of_instructions <= ancestors + 2 * 4
    assert requests["WalkParams"] == 1
    assert requests.total() - of_instructions <= ancestors + 1 + (folders - skills) + 4 * skills + 3 * 2
    figures(
        f"Instructions and {skills} skills of a workspace of {folders} folders",
        [f"{of_instructions} and {requests.total() - of_instructions} requests, {took * 1000:.0f} ms"],
    )


def counted(environment: Environment) -> Counter[str]:
    """How often which request is made from now on."""
    requests: Counter[str] = Counter()
    call = environment.processes.call

    async def counting(params: Any, *arguments: Any, **more: Any) -> Any:
        requests[type(params).__name__] += 1
        return await call(params, *arguments, **more)

    environment.processes.call = counting  # type: ignore[method-assign]
    return requests


async def test_a_bounded_number_at_a_time() -> None:
    under_way = most = 0

    async def call(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return -number

    assert await for_each(call, range(100)) == [-number for number in range(100)]
    assert most == AT_ONCE
    assert await for_each(call, []) == []


async def test_the_first_error_ends_the_others() -> None:
    """Lost: tasks that go on after the caller was told that it failed."""
    ended: list[int] = []

    async def call(number: int) -> None:
        if number == 3:
            raise ValueError(number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="3"):
        await for_each(call, range(100))
    assert sorted(ended) == [number for number in range(AT_ONCE) if number != 3]
