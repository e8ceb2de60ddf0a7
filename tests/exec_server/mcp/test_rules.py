"""Rules without any I/O: lines of files, edits, globs, what is seen of a command."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_server.mcp.activity import Activities, Activity
from exec_server.mcp.edits import replaced
from exec_server.mcp.errors import ToolError
from exec_server.mcp.event_store import EVENTS, RecentEvents, owner
from exec_server.mcp.lines import LineReader, text_of, trimmed
from exec_server.mcp.paths import absolute, is_within
from exec_server.mcp.search import grep_match, matches_glob
from exec_server.mcp.stdio import TOO_LONG, lines_of
from exec_server.mcp.tooling import schema_of
from exec_server.mcp.tools import TOOLS
from exec_server.unified_exec.limits import estimated_tokens
from exec_server.unified_exec.report import Begin, End, OutputDelta

TEXTS = st.text(st.sampled_from("ab\n\r é😀\u2028"), max_size=60)


# -- tools ------------------------------------------------------------------------------------------------------


def test_descriptions_are_short() -> None:
    """Lost: a model's context, eaten by tools that it may not even use."""
    shown = [
        {"name": tool.name, "description": tool.description, "inputSchema": schema_of(tool.arguments)}
        for tool in TOOLS.values()
    ]
    assert estimated_tokens(len(json.dumps(shown))) < 2500


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_plain(name: str) -> None:
    """Lost: clients that know no `$ref`, or that need `type` at the top."""
    for kind in (TOOLS[name].arguments, TOOLS[name].result):
        schema = schema_of(kind)
        assert schema["type"] == "object"
        assert "$ref" not in json.dumps(schema)
    hints = TOOLS[name].annotations
    assert hints.read_only_hint is not None and hints.idempotent_hint is not None and hints.open_world_hint is not None
    assert hints.read_only_hint or hints.destructive_hint is not None


# -- lines ------------------------------------------------------------------------------------------------------


@given(TEXTS, st.integers(1, 6), st.integers(1, 6), st.integers(4, 30), st.integers(1, 9))
def test_lines_read_in_blocks_are_those_of_the_file(text: str, first: int, count: int, most: int, block: int) -> None:
    """Lost: lines of a large file that a block's end has cut, or its characters."""
    data = text.encode()
    reader = LineReader(first, count, most)
    for start in range(0, len(data), block):
        if reader.full:
            break
        reader.feed(data[start : start + block])
    excerpt = reader.excerpt()
    lines = data.split(b"\n")
    before = sum(len(line) + 1 for line in lines[: first - 1])
    wanted = b"\n".join(lines[first - 1 :])[: sum(len(line) + 1 for line in lines[first - 1 : first - 1 + count])]
    assert wanted.startswith(excerpt.data)
    assert len(excerpt.data) <= most
    assert text_of(excerpt.data) is not None
    if excerpt.data:
        assert excerpt.offset == before
    if len(wanted) <= most:
        assert excerpt.data == wanted
    if excerpt.next_line is not None:
        assert data[: excerpt.end].count(b"\n") == excerpt.next_line - 1


@given(TEXTS, st.integers(0, 40), st.integers(0, 40))
def test_bytes_from_the_middle_are_whole_characters(text: str, start: int, size: int) -> None:
    assert text_of(trimmed(text.encode()[start : start + size])) is not None


def test_what_is_no_text() -> None:
    assert text_of(b"\x89PNG\r\n\x1a\n") is None
    assert text_of(b"a\0b") is None
    assert text_of("grüße".encode("latin-1")) is None
    assert text_of("grüße".encode()) == "grüße"


# -- edits ------------------------------------------------------------------------------------------------------


@given(TEXTS, TEXTS.filter(bool), TEXTS, TEXTS)
def test_a_diff_makes_the_new_text_of_the_old_one(head: str, old: str, new: str, tail: str) -> None:
    """Lost: what the model believes to have changed; it sees the diff only."""
    text = head + old + tail
    if text.count(old) != 1 or "\r" in text + new or old == new or text.find(old, text.find(old) + 1) >= 0:
        return
    edit = replaced(text, old, new, "file")
    assert edit.text == head + new + tail
    assert patched(text, edit.diff) == edit.text


def patched(text: str, diff: str) -> str:
    """Apply a diff of one hunk, by its numbers."""
    head, _, body = diff.partition("@@ -")[2].partition(" @@\n")
    at, count = map(int, head.split(" ")[0].split(","))
    lines = [line + "\n" for line in text.split("\n")[:-1]] + ([text.split("\n")[-1]] if text.split("\n")[-1] else [])
    new: list[str] = []
    marked = [line + "\n" for line in body.split("\n")[:-1]]
    for number, line in enumerate(marked):
        if line.startswith("\\"):
            continue
        bare = number + 1 < len(marked) and marked[number + 1].startswith("\\")
        if line[0] in " +":
            new.append(line[1:-1] if bare else line[1:])
    return "".join(lines[: at - 1] + new + lines[at - 1 + count :])


def test_a_diff_is_what_patch_takes(tmp_path: Path) -> None:
    """Lost: a diff that a person can apply elsewhere."""
    text = "".join(f"line {n}\n" for n in range(1, 20))
    edit = replaced(text, "line 9\nline 10\n", "line nine\n", "file.txt")
    tmp_path.joinpath("file.txt").write_text(text)
    subprocess.run(["git", "apply", "-p0", "-"], input=edit.diff.encode(), cwd=tmp_path, check=True)
    assert tmp_path.joinpath("file.txt").read_text() == edit.text


@pytest.mark.parametrize(
    "old, said",
    [
        ("", "old_text is empty"),
        ("nothing like it", "is not in file"),
        ("  beta\n", "at line 2"),
        ("alpha", "at lines 1, 4"),
        ("beta", "are the same"),
    ],
)
def test_edits_that_are_refused_say_why(old: str, said: str) -> None:
    """Lost: the next attempt of a model, which guesses."""
    with pytest.raises(ToolError, match=said):
        replaced("alpha\n\tbeta\ngamma\nalpha\n", old, "beta", "file")


def test_windows_line_ends_stay() -> None:
    edit = replaced("one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "1\n2\n", "file")
    assert edit.text == "1\r\n2\r\nthree\r\n"


# -- paths, globs, grep -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, found",
    [
        ("a", "/base/a"),
        ("../x", "/x"),
        ("/a/./b/../c", "/a/c"),
        ("file:///a%20b", "/a b"),
        ("//a", "/a"),
        (".", "/base"),
    ],
)
def test_absolute(path: str, found: str) -> None:
    assert absolute(path, "/base") == found


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "file://elsewhere/x"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ToolError):
        absolute(path, "/base")


def test_is_within() -> None:
    assert is_within("/a/b", "/a") and is_within("/a", "/a") and is_within("/a", "/")
    assert not is_within("/ab", "/a")


def test_globs() -> None:
    assert matches_glob("src/deep/x.py", "*.py")
    assert matches_glob("src/deep/x.py", "src/*.py")  # as fnmatch has it, * is any text
    assert matches_glob("x.py", "**/x.py")
    assert not matches_glob("src/x.pyc", "*.py")


def test_grep_lines_with_colons_in_names() -> None:
    known = {"/a", "/a:1:b"}
    found = grep_match("/a:1:b:7:text: here", known)
    assert found is not None and (found.path, found.line, found.text) == ("/a", 1, "b:7:text: here")
    found = grep_match("/a:1:b:7:text", {"/a:1:b"})
    assert found is not None and (found.path, found.line) == ("/a:1:b", 7)
    assert grep_match("Binary file /a matches", known) is None


# -- what is seen of a command ----------------------------------------------------------------------------------


def seen(*pieces: str) -> Activity:
    activity = Activity(Begin("call", 1, "cmd", None, True), 0.0)
    for piece in pieces:
        activity.print(piece, len(piece), 1.0)
    return activity


@pytest.mark.parametrize(
    "pieces, line",
    [
        (["one\ntwo\n"], "two"),
        (["one\r\nPass", "word: "], "Password:"),
        (["10%\r20%\r", "30%"], "30%"),
        (["\x1b[1;31mred\x1b[0m \x1b]0;title\x07$ "], "red $"),
        (["done\r", "\nnext? "], "next?"),
        (["done\r"], "done"),
        (["\n\n  \n"], ""),
        (["x" * 5000], "x" * 300),
    ],
)
def test_last_line(pieces: list[str], line: str) -> None:
    """Lost: what a command waits for, shown to whoever waits for the command."""
    assert seen(*pieces).last_line == line


@given(st.lists(st.text(st.sampled_from("ab\n\r\x1b[0m;$ "), max_size=40), max_size=8))
def test_last_line_is_short_and_plain(pieces: list[str]) -> None:
    line = seen(*pieces).last_line
    assert len(line) <= 300 and line.isprintable()


def test_a_quiet_command_on_a_terminal_may_wait() -> None:
    activity = seen("Name? ")
    assert not activity.is_quiet(1.5) and activity.is_quiet(2.5)
    activity.running = False
    assert not activity.is_quiet(9.0)


def test_what_has_ended_and_was_shown_is_forgotten() -> None:
    """Lost: memory, by and by."""
    activities = Activities()
    activities.take(Begin("c1", 1, "a", None, False), 0.0)
    activities.take(Begin("c2", 2, "b", None, False), 0.0)
    activities.take(OutputDelta("c1", 1, "stdout", b"\xff\xfe out\n"), 1.0)
    activities.take(End("c1", 1, 3, None, 1.0, 3), 1.0)
    found = activities.of_call("c1")
    assert found is not None and found.exit_code == 3 and not found.running
    activities.keep({2})
    assert activities.of_process(1) is None and activities.of_call("c1") is None and activities.of_process(2)


# -- messages on stdin ------------------------------------------------------------------------------------------


async def lines(data: bytes, most: int) -> list[str]:
    reading, writing = os.pipe()
    try:
        found = []

        async def read() -> None:
            async for line in lines_of(reading, most):
                found.append(line)

        task = asyncio.create_task(read())
        await asyncio.to_thread(lambda: (os.write(writing, data), os.close(writing)))
        async with asyncio.timeout(20):
            await task
        return found
    finally:
        os.close(reading)


@pytest.mark.anyio
async def test_a_message_that_is_too_long_is_answered() -> None:
    """Lost: a client that waits for ever for the answer to what we cannot hold."""
    long = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"' + b"y" * 9000 + b'"}}\n'
    last = b'{"method":"tools/call","params":{"x":"' + b"y" * 9000 + b'"},"jsonrpc":"2.0","id":"eight"}\n'
    found = await lines(b'{"a":1}\n' + long + b"\n" + last + b'{"b":2}\n', 1000)
    assert found[0] == '{"a":1}' and found[-1] == '{"b":2}'
    asked = [json.loads(line) for line in found[1:-1]]
    assert [(each["id"], each["method"]) for each in asked] == [(7, TOO_LONG), ("eight", TOO_LONG)]


@pytest.mark.anyio
async def test_messages_come_out_of_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("one\ntwo\n")
    with path.open() as file:
        assert [line async for line in lines_of(file.fileno())] == ["one", "two"]


# -- events for whoever was cut off -----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_events_of_one_session_are_not_told_to_another() -> None:
    """Lost: secrets; the streams of all sessions have the same names."""
    events = RecentEvents()
    told: list[str] = []

    async def tell(event: object) -> None:
        told.append(str(event))

    owner.set("one")
    first = await events.store_event("1", None)
    owner.set("two")
    await events.store_event("1", None)
    assert await events.replay_events_after(first, tell) is None
    owner.set("one")
    assert await events.replay_events_after(first, tell) == "1"
    assert await events.replay_events_after("nonsense", tell) is None
    for _ in range(2 * EVENTS):
        last = await events.store_event("1", None)
    assert await events.replay_events_after(first, tell) is None
    assert await events.replay_events_after(last, tell) == "1"
    events.forget("one")
    assert await events.replay_events_after(last, tell) is None
