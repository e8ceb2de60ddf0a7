"""Commands of a language model, with real processes on this machine and through a server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from exec_server import Environment, UnifiedExec, connect_websocket
from exec_server.client.events import Event as ProcessEvent
from exec_server.client.events import Failed, Gap, Output
from exec_server.unified_exec import (
    Begin,
    End,
    Event,
    OutputDelta,
    SandboxDenied,
    StdinClosed,
    TerminalInteraction,
    UnknownCommand,
)
from exec_server.unified_exec.command import RunningCommand
from protocol.errors import SpawnError
from protocol.sandbox import Sandbox
from tests.support.cutting_proxy import CuttingProxy
from tests.support.embedded import embedded
from tests.support.managed import managed
from tests.support.program import eventually, marker, program, running

pytestmark = pytest.mark.anyio
SHORT = 250
"""The shortest window, for commands that go on anyway."""
LONG = 30_000
"""The longest, for those that end."""


either = pytest.mark.parametrize("environment", ["local"], indirect=True)
"""For what does not depend on where the machine is."""


class Commands:
    """Unified exec under test, and what it told."""

    def __init__(self, environment: Environment) -> None:
        self.events: list[Event] = []
        self.environment = environment
        self.exec = UnifiedExec(environment, on_event=self.events.append, consecutive_ids=True)

    def of(self, process_id: int) -> list[Event]:
        return [event for event in self.events if event.process_id == process_id]

    def printed(self, process_id: int) -> str:
        return "".join(event.text for event in self.of(process_id) if isinstance(event, OutputDelta))

    def end(self, process_id: int) -> End | None:
        """Its End, of which there must be at most one, and nothing behind it."""
        ends = [event for event in self.of(process_id) if isinstance(event, End)]
        assert len(ends) <= 1
        assert not ends or self.of(process_id)[-1] is ends[0]
        return ends[0] if ends else None

    async def ended(self, process_id: int) -> End:
        await eventually(lambda: self.end(process_id), "it has ended")
        end = self.end(process_id)
        assert end is not None
        return end

    async def shows(self, process_id: int, text: str) -> None:
        await eventually(lambda: text in self.printed(process_id), f"{text!r} in {self.printed(process_id)!r}")


@pytest.fixture
async def commands(environment: Environment) -> AsyncIterator[Commands]:
    under_test = Commands(environment)
    async with under_test.exec:
        yield under_test


async def test_a_command_that_ends_leaves_nothing_behind(commands: Commands) -> None:
    """The usual case: one call, and no id that has to be remembered or polled."""
    snapshot = await commands.exec.exec_command("echo out; echo err >&2; exit 3", yield_time_ms=LONG, call_id="c1")
    assert sorted(snapshot.output.split()) == ["err", "out"]
    assert (snapshot.exit_code, snapshot.process_id, snapshot.failure, snapshot.notice) == (3, None, None, None)
    assert (snapshot.call_id, snapshot.command) == ("c1", "echo out; echo err >&2; exit 3")
    assert (snapshot.total_bytes, snapshot.total_tokens, snapshot.omitted_bytes) == (8, 2, 0)
    assert snapshot.wall_time_s > 0
    assert commands.exec.process_ids == []
    begin, *deltas, end = commands.events
    assert begin == Begin("c1", 1000, snapshot.command, None, False)
    assert {(delta.stream, delta.text) for delta in deltas if isinstance(delta, OutputDelta)} == {
        ("stdout", "out\n"),
        ("stderr", "err\n"),
    }
    assert isinstance(end, End) and (end.exit_code, end.failure, end.total_bytes) == (3, None, 8)
    assert end.transcript == snapshot.output
    with pytest.raises(UnknownCommand, match="process 1000 is finished: exit code 3"):
        await commands.exec.write_stdin(1000)


async def test_a_command_that_goes_on_is_talked_to(commands: Commands) -> None:
    """Every piece of output is in one snapshot, and the last one has the end."""
    first = await commands.exec.exec_command(
        "stty -echo; echo ready; read a; echo got $a; read b; exit $b", tty=True, yield_time_ms=SHORT
    )
    process_id = first.process_id
    assert process_id is not None and first.exit_code is None
    await commands.shows(process_id, "ready")
    second = await commands.exec.write_stdin(process_id, "it\n", yield_time_ms=SHORT)
    await commands.shows(process_id, "got it")
    third = await commands.exec.write_stdin(process_id, yield_time_ms=SHORT)
    last = await commands.exec.write_stdin(process_id, "7\n", yield_time_ms=LONG)
    assert (last.exit_code, last.process_id) == (7, None)
    assert second.wall_time_s >= 0.35  # 100 ms to react, then the window
    outputs = [snapshot.output for snapshot in (first, second, third, last)]
    assert "".join(outputs) == "ready\r\ngot it\r\n"
    assert len({snapshot.chunk_id for snapshot in (first, second, third, last)}) == 4
    interactions = [event.chars for event in commands.events if isinstance(event, TerminalInteraction)]
    assert interactions == ["it\n", "", "7\n"]
    assert {event.call_id for event in commands.events} == {first.call_id}


async def test_a_poll_returns_when_the_command_ends(commands: Commands, tmp_path: Path) -> None:
    """A model does not wait out thirty seconds for a build that is done."""
    os.mkfifo(tmp_path / "go")
    first = await commands.exec.exec_command(f"cat {tmp_path}/go", yield_time_ms=SHORT)
    assert first.process_id is not None
    poll = asyncio.create_task(commands.exec.write_stdin(first.process_id, yield_time_ms=LONG))
    await asyncio.to_thread((tmp_path / "go").write_text, "gone")
    snapshot = await poll
    assert (snapshot.output, snapshot.exit_code) == ("gone", 0)
    assert snapshot.wall_time_s < 30


async def test_too_much_output_is_cut_and_counted(commands: Commands) -> None:
    """A flood fills neither a model's context nor our memory, and nobody has to guess what is missing."""
    lines = "".join(f"{n:07}\n" for n in range(400_000))
    print_all = "seq -f %07.0f 0 399999"
    small = await commands.exec.exec_command(print_all, yield_time_ms=LONG, max_output_bytes=1600)
    note = f"\n[… {3_200_000 - 1600} bytes omitted …]\n"
    assert small.output == lines[:800] + note + lines[-800:]
    assert (small.omitted_bytes, small.total_bytes, small.total_tokens) == (3_200_000 - 1600, 3_200_000, 800_000)
    tokens = await commands.exec.exec_command(print_all, yield_time_ms=LONG, max_output_tokens=400)
    assert tokens.output == small.output
    most = await commands.exec.exec_command(print_all, yield_time_ms=LONG, max_output_bytes=1 << 30)
    half = 512 << 10
    assert most.output == f"{lines[:half]}\n[… {3_200_000 - (1 << 20)} bytes omitted …]\n{lines[-half:]}"
    end = await commands.ended(1002)
    assert (end.transcript, end.total_bytes) == (most.output, 3_200_000)
    usual = await commands.exec.exec_command(print_all, yield_time_ms=LONG)
    assert usual.total_bytes - usual.omitted_bytes == 40_000
    deltas = [event for event in commands.of(1000) if isinstance(event, OutputDelta)]
    assert commands.printed(1000) == lines
    assert max(len(delta.data) for delta in deltas) <= 8192


async def test_characters_that_come_in_two_parts_are_whole(commands: Commands) -> None:
    """Also where the other stream comes between the two."""
    command = (
        r"printf 'a\303'; sleep 0.1; printf 'b\342\202' >&2; sleep 0.1; printf '\251'; sleep 0.1; printf '\254' >&2"
    )
    snapshot = await commands.exec.exec_command(["/bin/bash", "-c", command], yield_time_ms=LONG)
    assert sorted(snapshot.output) == sorted("aéb€")
    deltas = [event.data for event in commands.events if isinstance(event, OutputDelta)]
    assert "".join(sorted(data.decode() for data in deltas)).count("\ufffd") == 0
    broken = await commands.exec.exec_command(["/bin/bash", "-c", r"printf 'a\303'"], yield_time_ms=LONG)
    assert (broken.output, broken.total_bytes) == ("a\ufffd", 2)


async def test_commands_are_told_that_no_person_reads(commands: Commands) -> None:
    """Lost: a model that waits for a pager, and reads escape sequences. Over whatever is set."""
    env = {"TERM": "xterm", "PAGER": "less", "COLORTERM": "truecolor", "MINE": "x"}
    snapshot = await commands.exec.exec_command("env", env=env, yield_time_ms=LONG)
    found = dict(line.split("=", 1) for line in snapshot.output.splitlines() if "=" in line)
    assert {name: found.get(name) for name in ("NO_COLOR", "TERM", "COLORTERM", "LANG", "LC_CTYPE", "LC_ALL")} == {
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLORTERM": "",
        "LANG": "C.UTF-8",
        "LC_CTYPE": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
    assert {found.get(name) for name in ("PAGER", "GIT_PAGER", "GH_PAGER")} == {"cat"}
    assert found["MINE"] == "x"
    assert found["PATH"]


async def test_the_folder_is_chosen(commands: Commands, tmp_path: Path) -> None:
    snapshot = await commands.exec.exec_command("pwd", workdir=str(tmp_path), yield_time_ms=LONG)
    assert snapshot.output == f"{tmp_path}\n"


async def test_a_failed_start_is_told_and_raised(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(SpawnError) as failed:
        await commands.exec.exec_command(["/no/such/program"], call_id="c")
    end = commands.end(1000)
    assert end is not None and end.failure == str(failed.value) and end.exit_code is None
    assert isinstance(commands.events[0], Begin) and len(commands.events) == 2
    assert commands.exec.process_ids == []
    with pytest.raises(SpawnError):
        await commands.exec.exec_command("true", workdir=str(tmp_path / "none"))


async def test_death_by_a_signal_is_told_as_shells_do(commands: Commands) -> None:
    snapshot = await commands.exec.exec_command("kill -9 $$", yield_time_ms=LONG)
    assert snapshot.exit_code == 137


async def test_input_needs_a_terminal(commands: Commands) -> None:
    """And a refusal costs nothing: the command goes on."""
    first = await commands.exec.exec_command(["sleep", marker()], yield_time_ms=SHORT)
    assert first.process_id is not None
    with pytest.raises(StdinClosed, match=r"stdin of process 1000 is closed: .*tty=True"):
        await commands.exec.write_stdin(first.process_id, "x")
    assert commands.exec.process_ids == [1000]
    with pytest.raises(UnknownCommand, match="unknown process id 77"):
        await commands.exec.write_stdin(77, "x")


@pytest.mark.parametrize("tty", [False, True])
async def test_input_for_a_command_that_has_ended(commands: Commands, tmp_path: Path, tty: bool) -> None:
    """A model learns that its answer came too late, and does not lose the output."""
    os.mkfifo(tmp_path / "go")
    first = await commands.exec.exec_command(f"cat {tmp_path}/go; exit 4", tty=tty, yield_time_ms=SHORT)
    assert first.process_id is not None
    await asyncio.to_thread((tmp_path / "go").write_text, "last words")
    await commands.ended(first.process_id)
    snapshot = await commands.exec.write_stdin(first.process_id, "x", yield_time_ms=SHORT)
    assert (snapshot.output, snapshot.exit_code, snapshot.process_id) == ("last words", 4, None)
    assert snapshot.notice == "the command has ended; the input was not delivered"
    assert commands.exec.process_ids == []


@either
async def test_a_command_that_does_not_read_holds_nobody_up(commands: Commands) -> None:
    first = await commands.exec.exec_command(["sleep", marker()], tty=True, yield_time_ms=SHORT)
    assert first.process_id is not None
    snapshot = await commands.exec.write_stdin(first.process_id, "x\n" * (3 << 20), yield_time_ms=SHORT)
    assert snapshot.notice == "the input is not taken yet: the command does not read"
    assert snapshot.process_id == first.process_id


async def test_a_command_interrupted_from_its_terminal(commands: Commands) -> None:
    first = await commands.exec.exec_command(["sleep", marker()], tty=True, yield_time_ms=SHORT)
    assert first.process_id is not None
    snapshot = await commands.exec.write_stdin(first.process_id, "\x03", yield_time_ms=LONG)
    assert (snapshot.exit_code, snapshot.process_id) == (130, None)


async def test_terminate(commands: Commands) -> None:
    mark = marker()
    first = await commands.exec.exec_command(f"echo on; sleep {mark}; exit 0", yield_time_ms=SHORT)
    assert first.process_id is not None
    snapshot = await commands.exec.terminate(first.process_id)
    assert first.output + snapshot.output == "on\n"
    assert (snapshot.exit_code, snapshot.process_id) == (137, None)
    assert commands.exec.process_ids == []
    await eventually(lambda: not running(mark), "it is gone")


async def test_background_jobs_go_on_until_the_end(environment: Environment) -> None:
    """A server that a model started is not ended behind its back, nor held because nobody reads what it prints."""
    mark = marker()
    commands = Commands(environment)
    async with commands.exec:
        snapshot = await commands.exec.exec_command(f"sleep {mark} & echo started", yield_time_ms=LONG)
        assert (snapshot.output, snapshot.exit_code, snapshot.process_id) == ("started\n", 0, None)
        assert commands.exec.process_ids == []
        await eventually(lambda: len(running(mark)) == 1, "it runs")
    await eventually(lambda: not running(mark), "it is gone")
    with pytest.raises(RuntimeError, match="closed"):
        await commands.exec.exec_command("true")


async def test_a_background_job_prints_to_nobody(commands: Commands, tmp_path: Path) -> None:
    """It is not held when nobody reads that any more, and costs no memory."""
    os.mkfifo(tmp_path / "go")
    job = (
        f"(read x < {tmp_path}/go; head -c 20000000 /dev/zero; echo > {tmp_path}/done; sleep {marker()}) & echo started"
    )
    snapshot = await commands.exec.exec_command(job, yield_time_ms=LONG)
    assert (snapshot.output, snapshot.exit_code) == ("started\n", 0)
    await asyncio.to_thread((tmp_path / "go").write_text, "x\n")
    await eventually(lambda: (tmp_path / "done").exists(), "all is printed")
    [followed] = commands.exec._followed
    assert followed._unread.total_bytes == 0
    assert commands.printed(1000) == "started\n"


async def test_the_end_ends_all(environment: Environment) -> None:
    """Calls that wait return, and every Begin has its End."""
    mark = marker()
    commands = Commands(environment)
    async with commands.exec:
        call = asyncio.create_task(commands.exec.exec_command(["sleep", mark], yield_time_ms=LONG))
        await eventually(lambda: commands.exec.process_ids, "it runs")
    snapshot = await call
    assert (snapshot.failure, snapshot.process_id) == ("unified exec was closed", None)
    end = commands.end(1000)
    assert end is not None and end.failure == "unified exec was closed"
    await eventually(lambda: not running(mark), "it is gone")


async def test_a_call_that_is_cancelled_takes_its_command_along(commands: Commands) -> None:
    """Nobody would know its id."""
    mark = marker()
    call = asyncio.create_task(commands.exec.exec_command(["sleep", mark], yield_time_ms=LONG))
    await eventually(lambda: commands.exec.process_ids, "it runs")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert commands.exec.process_ids == []
    assert (await commands.ended(1000)).failure == "the call was cancelled"
    await eventually(lambda: not running(mark), "it is gone")


async def test_a_look_that_is_cancelled_loses_nothing(commands: Commands) -> None:
    first = await commands.exec.exec_command("stty -echo; read x; echo $x; read y", tty=True, yield_time_ms=SHORT)
    assert first.process_id is not None
    look = asyncio.create_task(commands.exec.write_stdin(first.process_id, "kept\n", yield_time_ms=LONG))
    await commands.shows(first.process_id, "kept")
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    again = await commands.exec.write_stdin(first.process_id, "\n", yield_time_ms=LONG)
    assert (again.output, again.exit_code) == ("kept\r\n", 0)


@either
async def test_the_window_stops_while_a_person_is_asked(commands: Commands) -> None:
    """A model does not get an empty snapshot because somebody took their time to press a button."""
    with commands.exec.paused():
        call = asyncio.create_task(commands.exec.exec_command(["sleep", marker()], yield_time_ms=SHORT))
        longer = await commands.exec.exec_command("sleep 0.5; echo over", yield_time_ms=SHORT)
        assert longer.output == "over\n"  # the end of a command is told all the same
        assert not call.done()
    assert (await call).process_id is not None


@either
async def test_what_listens_may_fail(environment: Environment) -> None:
    def fails(event: Event) -> None:
        raise OSError("no screen")

    async with UnifiedExec(environment, on_event=fails) as commands:
        snapshot = await commands.exec_command("echo on", yield_time_ms=LONG)
        assert (snapshot.output, snapshot.exit_code) == ("on\n", 0)


@either
async def test_ids_are_random(environment: Environment) -> None:
    """One that a model makes up must not be that of something else."""
    seen: list[int] = []
    async with UnifiedExec(environment, on_event=lambda event: seen.append(event.process_id)) as commands:
        for _ in range(5):
            await commands.exec_command(["true"], yield_time_ms=LONG)
    assert min(seen) >= 1000
    assert len(set(seen)) == 5
    assert sorted(set(seen)) != list(range(min(seen), min(seen) + 5))


@either
async def test_a_65th_command_makes_one_go(commands: Commands) -> None:
    """The finished one first, then the one that was not used for longest; those in use stay."""
    mark = marker()

    async def sleeper() -> str | None:
        return (await commands.exec.exec_command(["sleep", mark], yield_time_ms=SHORT)).notice

    assert set(await asyncio.gather(*(sleeper() for _ in range(59)))) == {None}
    warning = await sleeper()
    assert warning is not None and re.match("60 of at most 64 commands are open", warning)
    await asyncio.gather(*(sleeper() for _ in range(4)))
    oldest, second, third, *_ = commands.exec.process_ids
    await commands.exec.write_stdin(oldest, yield_time_ms=SHORT)
    entries = [entry for entry in await commands.environment.processes.list() if entry.pid in running(mark)]
    os.kill(entries[20].pid, signal.SIGTERM)
    await eventually(lambda: len(running(mark)) == 63, "one has ended")
    await eventually(lambda: any(isinstance(event, End) for event in commands.events), "and it was told")
    [finished] = [event for event in commands.events if isinstance(event, End)]
    assert finished.process_id not in (oldest, second, third)
    await sleeper()
    assert finished.process_id not in commands.exec.process_ids
    assert len(commands.exec.process_ids) == 64
    await sleeper()
    assert second not in commands.exec.process_ids and oldest in commands.exec.process_ids
    end = await commands.ended(second)
    assert end.failure == "it was ended to make room: at most 64 commands are kept"
    with pytest.raises(UnknownCommand, match="is finished: it was ended to make room"):
        await commands.exec.write_stdin(second)
    await eventually(lambda: len(running(mark)) == 64, "it was killed")


async def test_a_server_that_is_gone_is_told() -> None:
    with program() as server:
        async with connect_websocket(server.url, reconnect_timeout=0.1) as client:
            commands = Commands(Environment(client))
            async with commands.exec:
                first = await commands.exec.exec_command(["sleep", marker()], tty=True, yield_time_ms=SHORT)
                assert first.process_id is not None
                server.popen.kill()
                end = await commands.ended(first.process_id)
                assert end.failure is not None
                assert end.failure.startswith("exec-server transport disconnected")
                snapshot = await commands.exec.write_stdin(first.process_id, "x", yield_time_ms=SHORT)
                assert (snapshot.failure, snapshot.process_id, snapshot.exit_code) == (end.failure, None, None)
                assert snapshot.notice == "the command has ended; the input was not delivered"
                with pytest.raises(ConnectionError, match="exec-server transport disconnected"):
                    await commands.exec.exec_command("true")


async def test_a_cut_is_not_seen() -> None:
    """Input arrives once, output in one snapshot, as if there had been no cut."""
    async with embedded() as (_, url), CuttingProxy(url) as proxy, connect_websocket(proxy.url) as client:
        commands = Commands(Environment(client))
        async with commands.exec:
            first = await commands.exec.exec_command(
                "stty -echo; echo ready; read a; echo got $a", tty=True, yield_time_ms=SHORT
            )
            assert first.process_id is not None
            await commands.shows(first.process_id, "ready")
            proxy.cut()
            last = await commands.exec.write_stdin(first.process_id, "it\n", yield_time_ms=LONG)
            assert first.output + last.output == "ready\r\ngot it\r\n"
            assert (last.exit_code, last.failure, last.notice) == (0, None, None)


async def test_a_command_that_the_server_has_forgotten_is_finished() -> None:
    """Lost: a model that types into nothing for the rest of its turn."""
    mark = marker()
    async with (
        embedded(process_retention=0.01) as (server, url),
        CuttingProxy(url) as proxy,
        connect_websocket(proxy.url) as client,
    ):
        actors = server._engine.live_actors
        commands = Commands(Environment(client))
        async with commands.exec:
            first = await commands.exec.exec_command(["sleep", mark], tty=True, yield_time_ms=SHORT)
            assert first.process_id is not None
            proxy.refuse = True
            proxy.cut()
            os.kill(running(mark)[0], signal.SIGKILL)
            await eventually(lambda: server._engine.live_actors < actors, "bridge and process are gone")
            writing = asyncio.create_task(commands.exec.write_stdin(first.process_id, "x", yield_time_ms=LONG))
            proxy.refuse = False
            snapshot = await writing
            assert snapshot.failure == "the server does not know the process any more"
            assert snapshot.notice == "the command has ended; the input was not delivered"
            assert (snapshot.process_id, snapshot.exit_code) == (None, None)
            with pytest.raises(UnknownCommand, match="is finished: the server does not know"):
                await commands.exec.write_stdin(first.process_id, "x")


class Told:
    """A process of which this is heard."""

    process_id = "p"

    def __init__(self, *events: ProcessEvent) -> None:
        self._events = events

    @property
    async def events(self) -> AsyncIterator[ProcessEvent]:
        for event in self._events:
            yield event


async def test_output_that_was_lost_is_counted() -> None:
    """What a server could not keep through a cut is missing for a model as much as what was cut away."""
    events: list[Event] = []
    told = Told(
        Output("p", 1, "stdout", 0, b"before "),
        Gap("p", 2, 9, 1000),
        Output("p", 10, "stdout", 1007, b"after"),
        Failed("p", "it is gone", "processLost"),
    )
    command = RunningCommand(Begin("c", 1000, "x", None, False), None, told, 0.0, events.append)  # type: ignore[arg-type]
    await command.follow()
    taken = command.take(100)
    assert (taken.text, taken.omitted_bytes, taken.total_bytes) == ("before after", 1000, 1012)
    assert taken.notice == "1000 bytes of output were lost while there was no connection"
    end = events[-1]
    assert isinstance(end, End) and (end.exit_code, end.failure, end.total_bytes) == (None, "it is gone", 12)


async def test_the_server_calls_a_command_by_the_same_number(environment: Environment) -> None:
    """Lost: which entry of the audit log is about what the model has done."""
    async with (
        UnifiedExec(environment, consecutive_ids=True) as commands,
        UnifiedExec(environment, consecutive_ids=True) as others,
    ):
        first = await commands.exec_command("sleep 60", yield_time_ms=SHORT)
        second = await others.exec_command("sleep 60", yield_time_ms=SHORT)
        assert (first.process_id, second.process_id) == (1000, 1000)
        names = sorted(entry.process_id for entry in await environment.processes.list())
        assert names[0] == "1000" and re.fullmatch("1000-[0-9a-f]{8}", names[1])


async def test_what_the_sandbox_denied_is_an_error(commands: Commands, tmp_path: Path) -> None:
    """A caller asks a person whether it may be done without, and needs the output for that."""
    (tmp_path / "in").mkdir()
    sandbox = msgspec.convert(managed(tmp_path / "in"), Sandbox)
    command = f"echo trying; echo x > {tmp_path}/denied"
    with pytest.raises(SandboxDenied, match="trying") as denied:
        await commands.exec.exec_command(command, sandbox=sandbox, yield_time_ms=LONG)
    assert denied.value.snapshot.output.startswith("trying\n")
    assert denied.value.snapshot.exit_code not in (0, None)
    assert commands.exec.process_ids == []
    allowed = await commands.exec.exec_command(f"echo x > {tmp_path}/in/f", sandbox=sandbox, yield_time_ms=LONG)
    assert allowed.exit_code == 0
    assert not (tmp_path / "denied").exists()
