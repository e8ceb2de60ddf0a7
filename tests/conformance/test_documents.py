"""What is written down about compatibility is true: in docs/compatibility.md, in the tables here, in the README."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.conformance import scope
from tests.conformance.dialogue import Dialogue
from tests.conformance.differences import DIFFERENCES
from tests.conformance.helpers import json_only
from tests.conformance.traces import DATA, REQUESTS, load

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "compatibility.md"
DIALOGUES = [
    pytest.param(text, id=f"{path.name}-{number}")
    for path in (ROOT / "README.md", DOCUMENT)
    for number, text in enumerate(
        re.findall(r"<!-- (?:dialogue|session) -->\n```\n(.*?)```", path.read_text(), re.DOTALL), 1
    )
]


def documented() -> list[str]:
    """The names in the first column of the tables of differences."""
    section = DOCUMENT.read_text().partition("\n## Differences from upstream\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_both_lists_of_differences_agree() -> None:
    """A difference that the tests allow and nobody is told of, or the other way round."""
    keys = [each.key for each in DIFFERENCES]
    assert len(keys) == len(set(keys))
    assert sorted(documented()) == sorted(keys)


def test_every_difference_is_shown_by_something() -> None:
    """A claim that nothing checks is no claim; a test that was renamed checks nothing."""
    for each in DIFFERENCES:
        assert each.at or each.tests, each.key
        assert set(each.at) <= set(load()), each.key
        for test in each.tests:
            path, _, name = test.partition("::")
            functions = {node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")}
            assert name in functions, test


def test_every_trace_is_accounted_for() -> None:
    """Each recorded conversation is replayed, or used by other tests, or left out with a reason; never two of these."""
    names = (DATA.parent / "names.txt").read_text().splitlines()
    assert len(names) == len(set(names)) == 225
    replayed = set(load())
    for name in names:
        homes = [
            *([DATA.name] if name in replayed else []),
            *scope.matching(scope.ELSEWHERE, name),
            *scope.matching(scope.LATER, name),
            *scope.matching(scope.SAME, name),
        ]
        assert len(homes) == 1, (name, homes)
    assert replayed <= set(names)


def test_traces_used_elsewhere_are_there() -> None:
    """A trace that was said to be used by other tests, and is not."""
    files = (ROOT / "tests" / "transport" / "data" / "upstream.jsonl", REQUESTS)
    there = [line for file in files for line in file.read_text().splitlines()]
    used = {json.loads(line)["name"] for line in there}
    names = (DATA.parent / "names.txt").read_text().splitlines()
    assert {name for name in names if scope.matching(scope.ELSEWHERE, name)} == used


def test_every_copied_trace_is_used() -> None:
    """Dead data looks like coverage."""
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    replay = (Path(__file__).parent / "test_replay.py").read_text()
    scenarios = ast.literal_eval(re.search(r"SCENARIOS = (\(.*?\))\n", replay, re.DOTALL)[1])  # type: ignore[index]
    for name in load():
        if name.startswith(scenarios) and not name.startswith(("burst/", "server/sig-")):
            assert f'"{name}"' in sources, name


@json_only
@pytest.mark.anyio
@pytest.mark.parametrize("text", DIALOGUES)
async def test_examples(talk: Dialogue, text: str) -> None:
    """Examples are copied before anything is read, so they must work to the letter."""
    lines = text.splitlines()
    assert {line[:2] for line in lines} == {"> ", "< "}
    for line in lines:
        if line.startswith("> "):
            await talk.send(line[2:])
        else:
            await expect_text(talk, line[2:])


async def expect_text(talk: Dialogue, example: str) -> None:
    pattern = re.compile(".*?".join(map(re.escape, re.split(r",? ?…", example))))
    while not any(pattern.fullmatch(raw.decode()) for raw in talk.raw):
        await talk.hear(f"something like {example}")
