"""The tools of a model over a machine: shell, pictures, events of a turn (harness-spec 6)."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from prometheus_client import CollectorRegistry

from exec_server import Environment, UnifiedExec
from exec_server.unified_exec import Begin, End, OutputDelta, Snapshot, TerminalInteraction
from harness import ShellTools, ToolCall, ToolResult, TurnEvents, ViewImage
from harness.tools.events import MAX_DELTAS
from harness.tools.metrics import ToolCounters
from harness.tools.shell import COUNTER, ExecCommand, snapshot_text
from protocol.sandbox import Sandbox
from tests.support.managed import entry, managed
from tests.support.program import Program, marker, program, running

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Program]:
    with program() as started:
        yield started


@pytest.fixture(params=["local", "server"])
async def environment(request: pytest.FixtureRequest, server: Program) -> AsyncIterator[Environment]:
    """A machine in this process, and one behind a WebSocket: the tools are the same."""
    if request.param == "local":
        async with Environment.create("local") as here:
            yield here
    else:
        async with Environment.create(server.url) as there:
            yield there


class Machine:
    """Tools under test, and what they told."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.events: list[Json] = []
        self.counted: list[tuple[str, Any]] = []
        self.turn = TurnEvents("t1", cwd=str(folder), shell="/bin/sh")
        self.commands = UnifiedExec(environment, on_event=self._take, consecutive_ids=True)
        self.environment = environment
        self.folder = folder
        self.tools = ShellTools(self.commands, cwd=str(folder), count=lambda *each: self.counted.append(each))

    def _take(self, event: Any) -> None:
        self.events += self.turn.feed(event)

    async def exec(self, **arguments: Any) -> ToolResult:
        return await self.tools.call("exec_command", {"yield_time_ms": 30_000, **arguments}, "c1")

    def of_type(self, name: str) -> list[Json]:
        return [each for each in self.events if each["type"] == name]


@pytest.fixture
async def machine(environment: Environment, tmp_path: Path) -> AsyncIterator[Machine]:
    under_test = Machine(environment, tmp_path)
    async with under_test.commands:
        yield under_test


# -- 6.1 shell ------------------------------------------------------------------------------------------------------


async def test_a_command(machine: Machine) -> None:
    """6.1: the lines in their order, and what is absent left out."""
    result = await machine.exec(cmd="echo hi")
    lines = result.text.splitlines()
    assert result.success and result.text.endswith("Output:\nhi\n")
    assert re.fullmatch("Chunk ID: [0-9a-f]{6}", lines[0])
    assert re.fullmatch(r"Wall time: \d+\.\d{4} seconds", lines[1])
    assert lines[2:] == ["Process exited with code 0", "Original token count: 1", "Output:", "hi"]
    assert machine.counted == [(COUNTER, {"tty": "false"})]


async def test_a_command_that_fails_was_a_tool_that_ran(machine: Machine) -> None:
    """6.1"""
    result = await machine.exec(cmd="exit 3")
    assert result.success and "Process exited with code 3\n" in result.text


async def test_where_a_command_runs(machine: Machine) -> None:
    """6.1: against the folder of the turn; a blank one is none."""
    (machine.folder / "sub").mkdir()
    for workdir, folder in (("sub", "sub"), (" ", ""), (str(machine.folder / "sub"), "sub"), (None, "")):
        result = await machine.exec(cmd="pwd", workdir=workdir)
        assert result.text.endswith(f"Output:\n{(machine.folder / folder).resolve()}\n")
    gone = await machine.exec(cmd="pwd", workdir="none")
    assert not gone.success and gone.text.startswith("exec_command failed: ")


async def test_shells(machine: Machine) -> None:
    """6.1: one of the model's choice, as a login shell or not. What a real one reads at its start is not ours."""
    shell = machine.folder / "shell"
    shell.write_text('#!/bin/sh\necho "$@"\n')
    shell.chmod(0o755)
    assert (await machine.exec(cmd="a b", shell=str(shell), login=True)).text.endswith("Output:\n-lc a b\n")
    assert (await machine.exec(cmd="a b", shell=str(shell))).text.endswith("Output:\n-c a b\n")
    missing = await machine.exec(cmd="x", shell="/bin/none")
    assert not missing.success and "/bin/none" in missing.text


async def test_a_command_that_goes_on(machine: Machine) -> None:
    """6.1, 6.3: written to by its session ID, which is the process id of the events."""
    started = await machine.exec(cmd="read line; echo got $line", tty=True, yield_time_ms=250)
    assert started.success and "Process running with session ID 1000\n" in started.text
    written = await machine.tools.call(
        "write_stdin", json.dumps({"session_id": 1000, "chars": "x\n", "yield_time_ms": 30_000}), "c2"
    )
    assert "got x" in written.text and "Process exited with code 0" in written.text
    assert machine.counted == [(COUNTER, {"tty": "true"})]
    [interaction] = machine.of_type("terminal_interaction")
    assert interaction == {"type": "terminal_interaction", "call_id": "c1", "process_id": "1000", "stdin": "x\n"}
    again = await machine.tools.call("write_stdin", {"session_id": 1000}, "c3")
    assert not again.success and again.text == "write_stdin failed: process 1000 is finished: exit code 0"
    unknown = await machine.tools.call("write_stdin", {"session_id": 5}, "c4")
    assert unknown.text == "write_stdin failed: unknown process id 5"


async def test_input_for_who_has_none(machine: Machine) -> None:
    started = await machine.exec(cmd=f"sleep {marker()}", yield_time_ms=250)
    assert "session ID 1000" in started.text
    refused = await machine.tools.call("write_stdin", {"session_id": 1000, "chars": "x"}, "c")
    assert not refused.success and "stdin of process 1000 is closed" in refused.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"cmd": 1}, "cmd"),
        ({}, "cmd"),
        ({"cmd": "x", "more": 1}, "more"),
        ({"cmd": "x", "tty": "yes"}, "tty"),
        ({"cmd": "x", "yield_time_ms": -1}, "yield_time_ms"),
        ({"cmd": "x", "max_output_tokens": 1.5}, "max_output_tokens"),
        ('{"cmd": ', "exec_command failed: "),
        ("[]", "object"),
        ("[" * 100_000, "exec_command failed: "),
        (b"\xff", "exec_command failed: "),
        ('{"cmd":"x"}' + " " * (5 << 20), "more than"),
    ],
)
async def test_bad_arguments_are_for_the_model(arguments: Any, says: str) -> None:
    """6.1: the model that made the mistake is told which member it is in; nothing is started."""
    tools = ShellTools(None)  # type: ignore[arg-type]  # it must not be needed
    result = await tools.call("exec_command", arguments, "c")
    assert not result.success and result.text.startswith("exec_command failed: ") and says in result.text
    assert len(result.text) < 300


async def test_a_tool_that_is_none(machine: Machine) -> None:
    assert "no tool 'apply'" in (await machine.tools.call("apply", "{}", "c")).text


@given(st.text(max_size=100) | st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(), max_size=3))
async def test_call_never_raises(arguments: Any) -> None:
    """7: a loop of 20 lines has no room for exceptions. What it returns can be sent."""

    class Broken:
        async def exec_command(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("\ud800")

        write_stdin = exec_command

    tools = ShellTools(Broken())  # type: ignore[arg-type]
    for name in ("exec_command", "write_stdin", "none"):
        result = await tools.call(name, arguments, "c")
        assert not result.success
        msgspec.json.encode(result.item("c"))


async def test_the_definitions_are_json_schema(machine: Machine) -> None:
    """6.1: what a model may send, and nothing else."""
    run, write = machine.tools.definitions()
    assert (run["name"], write["name"]) == ("exec_command", "write_stdin")
    for each in (run, write):
        jsonschema.Draft202012Validator.check_schema(each["parameters"])
        assert each["parameters"]["additionalProperties"] is False and "$ref" not in json.dumps(each)
        assert all("description" in member for member in each["parameters"]["properties"].values())
    assert set(run["parameters"]["properties"]) == set(ExecCommand.__struct_fields__)
    assert run["parameters"]["required"] == ["cmd"] and write["parameters"]["required"] == ["session_id"]
    jsonschema.validate({"cmd": "ls", "workdir": None}, run["parameters"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"cmd": "ls", "more": 1}, run["parameters"])


async def test_a_refusal(machine: Machine) -> None:
    """6.1: asked before, with what the model gave; nothing runs."""
    asked: list[ToolCall] = []

    async def before(call: ToolCall) -> str | None:
        asked.append(call)
        return "the user says no"

    tools = ShellTools(machine.commands, before=before)
    result = await tools.call("exec_command", {"cmd": "touch x"}, "c9")
    assert result == ToolResult("the user says no", False)
    assert asked == [ToolCall("exec_command", {"cmd": "touch x"}, "c9")]
    assert await tools.call("write_stdin", {"session_id": 1}, "c") == ToolResult("the user says no", False)
    assert machine.events == [] and machine.counted == []


async def test_cancelling_ends_the_command(machine: Machine) -> None:
    """6.1: the one thing that raises."""
    number = marker()
    call = asyncio.create_task(machine.exec(cmd=f"sleep {number}"))
    while not running(number):
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    while running(number):
        await asyncio.sleep(0.01)


async def test_a_sandbox(machine: Machine) -> None:
    """6.1: what commands may do is for who makes the tools to say."""
    allowed = machine.folder / "in"
    allowed.mkdir()
    sandbox = msgspec.convert(managed(allowed), Sandbox)
    tools = ShellTools(machine.commands, cwd=str(allowed), sandbox=sandbox)
    await tools.call("exec_command", {"cmd": f"touch here {machine.folder}/there", "yield_time_ms": 30_000}, "c")
    assert (allowed / "here").exists() and not (machine.folder / "there").exists()


def test_lines_of_their_own() -> None:
    """6.1: notice and failure before the output."""
    snapshot = Snapshot(
        call_id="c",
        chunk_id="abcdef",
        command="x",
        output="o",
        omitted_bytes=0,
        total_bytes=1,
        total_tokens=1,
        exit_code=None,
        process_id=None,
        wall_time_s=1.00239,
        failure="it is gone",
        notice="hear",
    )
    assert snapshot_text(snapshot) == (
        "Chunk ID: abcdef\nWall time: 1.0024 seconds\nOriginal token count: 1\n"
        "Failure: it is gone\nNotice: hear\nOutput:\no"
    )


async def test_the_counter_for_prometheus(machine: Machine) -> None:
    """6.1, through the extra `metrics`."""
    registry = CollectorRegistry()
    tools = ShellTools(machine.commands, count=ToolCounters(registry))
    await tools.call("exec_command", {"cmd": "true", "yield_time_ms": 30_000}, "c")
    await tools.call("exec_command", {"cmd": "true", "yield_time_ms": 30_000, "tty": True}, "c")
    await tools.call("exec_command", {"cmd": 1}, "c")
    for tty in ("true", "false"):
        assert registry.get_sample_value("codex_tool_unified_exec_total", {"tty": tty}) == 1


# -- 6.2 pictures ---------------------------------------------------------------------------------------------------


def picture(path: Path, size: tuple[int, int] = (2500, 100)) -> Path:
    file = io.BytesIO()
    Image.new("L", size).save(file, "PNG")
    path.write_bytes(file.getvalue())
    return path


async def test_a_picture(environment: Environment, tmp_path: Path) -> None:
    """6.2: made to fit, or with `original` as it is."""
    path = picture(tmp_path / "a.png")
    events: list[Json] = []
    small = await ViewImage(environment, str(tmp_path), on_event=events.append).call('{"path":"a.png"}', "c1")
    [item] = small.images
    assert small.success and set(item) == {"type", "image_url"} and item["type"] == "input_image"
    data = base64.b64decode(item["image_url"].removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(data)).size == (2048, 82)
    assert events == [{"type": "view_image_tool_call", "call_id": "c1", "path": str(path)}]
    assert small.item("c1") == {"type": "function_call_output", "call_id": "c1", "output": [item]}

    close = ViewImage(environment, original=True)
    [item] = (await close.call({"path": str(path), "detail": "original"}, "c2")).images
    assert item["detail"] == "original"
    assert base64.b64decode(item["image_url"].partition(",")[2]) == path.read_bytes()
    wished = await ViewImage(environment).call({"path": str(path), "detail": "original"}, "c3")
    assert "detail" not in wished.images[0]  # the model has no such thing: the wish is ignored
    assert (await close.call({"path": str(path), "detail": None}, "c4")).success


async def test_pictures_that_cannot_be_had(environment: Environment, tmp_path: Path) -> None:
    """6.2: text for the model, no item that its provider would refuse for good, and no event."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.png").write_text("<svg/>")
    with open(tmp_path / "huge.png", "wb") as file:
        file.truncate(65 << 20)
    events: list[Json] = []
    tool = ViewImage(environment, str(tmp_path), original=True, on_event=events.append)
    expected = {
        "none.png": "unable to locate image at `{}`: ",
        "folder": "image path `{}` is not a file",
        "text.png": "unable to process image at `{}`: ",
        "huge.png": "unable to read image at `{}`: ",
    }
    for name, text in expected.items():
        result = await tool.call({"path": name}, "c")
        assert result.text.startswith(text.format(tmp_path / name))
        assert not result.success and result.images == ()
        assert result.item("c")["output"] == result.text
    picture(tmp_path / "a.png")
    low = await tool.call({"path": "a.png", "detail": "low"}, "c")
    assert not low.success and "'low'" in low.text
    for arguments in ({}, {"path": 5}, {"path": "a.png", "more": 1}, "[", "{}"):
        assert not (await tool.call(arguments, "c")).success
    assert events == []


async def test_a_model_without_eyes() -> None:
    """6.2: no file is touched."""
    blind = ViewImage(None, images=False)  # type: ignore[arg-type]
    result = await blind.call({"path": "/x.png"}, "c")
    assert not result.success and "takes no images" in result.text


async def test_a_picture_that_the_sandbox_denies(environment: Environment, tmp_path: Path) -> None:
    """6.2"""
    (tmp_path / "in").mkdir()
    path = picture(tmp_path / "out.png")
    sandbox = msgspec.convert(managed(tmp_path / "in", entry(path, "deny")), Sandbox)
    result = await ViewImage(environment, sandbox=sandbox).call({"path": str(path)}, "c")
    assert result.text.startswith(f"unable to read image at `{path}`:") and not result.success


def test_the_definition_of_view_image() -> None:
    """6.2: `detail` for models that have it."""
    without = ViewImage(None).definition()  # type: ignore[arg-type]
    with_detail = ViewImage(None, original=True).definition()  # type: ignore[arg-type]
    assert set(without["parameters"]["properties"]) == {"path"}
    assert set(with_detail["parameters"]["properties"]) == {"path", "detail"}
    jsonschema.validate({"path": "x", "detail": "original"}, with_detail["parameters"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"path": "x", "detail": "low"}, with_detail["parameters"])


# -- 6.3 events of a turn -------------------------------------------------------------------------------------------


async def test_the_events_of_a_command(machine: Machine) -> None:
    """6.3"""
    await machine.exec(cmd="printf a; sleep 0.2; printf b >&2; exit 3")
    begin, first, second, end = machine.events
    command = [machine.environment.info.shell.path, "-c", "printf a; sleep 0.2; printf b >&2; exit 3"]
    members = {
        "call_id": "c1",
        "turn_id": "t1",
        "process_id": "1000",
        "command": ["/bin/sh", *command[1:]],
        "cwd": str(machine.folder),
        "parsed_cmd": [],
        "source": "unified_exec_startup",
    }
    assert begin == {"type": "exec_command_begin", **members}
    assert first == {
        "type": "exec_command_output_delta",
        "call_id": "c1",
        "stream": "stdout",
        "chunk": base64.b64encode(b"a").decode(),
    }
    assert (second["stream"], base64.b64decode(second["chunk"])) == ("stderr", b"b")
    duration = end.pop("duration")
    assert duration["secs"] * 10**9 + duration["nanos"] > 200_000_000 and duration["nanos"] < 10**9
    assert end == {
        "type": "exec_command_end",
        **members,
        "stdout": "ab",
        "stderr": "",
        "aggregated_output": "ab",
        "exit_code": 3,
        "formatted_output": "ab",
        "status": "failed",
    }
    json.dumps(machine.events)


async def test_a_command_that_cannot_start_has_begin_and_end(machine: Machine) -> None:
    """6.3: one end for each begin."""
    result = await machine.exec(cmd="x", shell="/bin/none")
    assert not result.success
    begin, end = machine.events
    assert (begin["type"], end["type"]) == ("exec_command_begin", "exec_command_end")
    assert (end["exit_code"], end["stdout"], end["status"]) == (-1, "", "failed")
    assert "/bin/none" in end["stderr"] and end["aggregated_output"] == end["stderr"]


async def test_pieces_are_of_whole_characters(machine: Machine) -> None:
    """6.3: at most 8,192 bytes; a front end that shows half a character shows two wrong ones."""
    await machine.exec(cmd="for i in $(seq 4000); do printf 'añ€😀'; done")
    pieces = [base64.b64decode(each["chunk"]) for each in machine.of_type("exec_command_output_delta")]
    assert all(len(piece) <= 8192 for piece in pieces)
    assert "".join(piece.decode() for piece in pieces) == "añ€😀" * 4000
    [end] = machine.of_type("exec_command_end")
    assert (end["aggregated_output"], end["status"]) == ("añ€😀" * 4000, "completed")


def test_deltas_have_an_end() -> None:
    """6.3: 10,000 a call, while the transcript goes on."""
    turn = TurnEvents("t")
    told = turn.feed(Begin("c", 7, ["x"], "/w", False))
    for _ in range(MAX_DELTAS + 1):
        told += turn.feed(OutputDelta("c", 7, "stdout", b"y"))
    told += turn.feed(End("c", 7, 0, None, 1.25, MAX_DELTAS + 1, "y" * (MAX_DELTAS + 1)))
    assert [each["type"] for each in told].count("exec_command_output_delta") == MAX_DELTAS
    assert len(told[-1]["aggregated_output"]) == MAX_DELTAS + 1
    assert told[-1]["duration"] == {"secs": 1, "nanos": 250_000_000}
    assert (told[0]["command"], told[0]["cwd"]) == (["x"], "/w")


def test_a_command_that_was_lost() -> None:
    """6.3"""
    turn = TurnEvents("t")
    turn.feed(Begin("c", 7, "x", None, False))
    turn.feed(OutputDelta("c", 7, "stdout", b"o"))
    [end] = turn.feed(End("c", 7, None, "exec-server transport disconnected: x", 0.0, 1, "o"))
    assert (end["exit_code"], end["stdout"], end["stderr"], end["status"]) == (
        -1,
        "o",
        "exec-server transport disconnected: x",
        "failed",
    )
    assert end["aggregated_output"] == "o\nexec-server transport disconnected: x"
    turn.feed(Begin("d", 8, "x", None, False))
    [end] = turn.feed(End("d", 8, None, "lost", 0.0, 0))
    assert end["aggregated_output"] == "lost"
    turn.feed(Begin("e", 9, "x", None, False))
    [end] = turn.feed(End("e", 9, None, None, 0.0, 0))
    assert (end["exit_code"], end["status"]) == (-1, "failed")


def test_what_was_refused() -> None:
    """6.3: begin and end, `declined`."""
    begin, end = TurnEvents("t", cwd="/w").declined("c", "rm -rf /", "the user says no")
    assert begin["command"] == end["command"] == ["sh", "-c", "rm -rf /"]
    assert (end["status"], end["exit_code"], end["stderr"]) == ("declined", -1, "the user says no")
    assert TurnEvents("t").feed(TerminalInteraction("c", 7, ""))[0]["stdin"] == ""
