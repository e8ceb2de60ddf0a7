"""What a client is promised of one process: output, input, signals, exit."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from actors.system.pool import LANE_SIZE
from tests.actors.system.child.support import HangingProgram
from tests.support.client import ENV, Client, expect_error, session, start_params
from tests.support.program import Program, alive, eventually, marker, running

pytestmark = pytest.mark.anyio


async def test_pipes_stream_while_the_child_runs(server: Program) -> None:
    """Lost: seeing what a build prints before it ends."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True)
        for word in (b"one\n", b"two\n"):
            assert await cat.write(word) == "accepted"
            await cat.shows(word)
        assert cat.exit is None
        await cat.terminate()
        assert (await cat.closed()).stdout == b"one\ntwo\n"


async def test_two_streams_one_counter_and_the_exit_code(server: Program) -> None:
    """Lost: which stream a line came from, or how the command ended."""
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
        assert (ended.stdout, ended.stderr, ended.code) == (b"out\n", b"err\n", 7)
        assert (ended.signal, ended.reason) == (None, "exited")


async def test_a_terminal_is_one_from_the_first_instruction(server: Program) -> None:
    """Lost: full-screen programs, which ask for size, /dev/tty and job control at once."""
    script = (
        "stty size; test -t 0 && test -t 1 && test -t 2 && echo terminal;"
        " echo through >/dev/tty; ps -o tpgid=,pgid= -p $$"
    )
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", script, tty=True, rows=50, cols=132)
        size, is_terminal, through, groups = ended.pty.split(b"\r\n")[:4]
        assert (size, is_terminal, through) == (b"50 132", b"terminal", b"through")
        assert len(set(groups.split())) == 1, "the shell is not in the foreground"


async def test_typing_into_a_shell_on_a_terminal(server: Program) -> None:
    """Lost: an interactive shell."""
    async with session(server.url) as client:
        shell = await client.start("sh", "/bin/sh", tty=True, env={**ENV, "PS1": "> "})
        await shell.shows(b"> ")
        await shell.write(b"echo $((6 * 7))\n")
        await shell.shows(b"\r\n42\r\n")
        await shell.write(b"exit 5\n")
        assert (await shell.closed()).code == 5


async def test_end_of_file_typed_into_a_terminal(server: Program) -> None:
    """Lost: ending `cat` with ^D."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", tty=True)
        await cat.write(b"line\n\x04")
        assert (await cat.closed()).pty == b"line\r\nline\r\n"


@pytest.mark.parametrize("by", ["typing", "signal"])
async def test_interrupt_of_a_terminal_reaches_the_foreground_group(server: Program, by: str) -> None:
    """Lost: stopping a command with ^C, the pipeline around it included."""
    mark = marker()
    async with session(server.url) as client:
        shell = await client.shell("sh", f"echo ready; sleep {mark} | sleep {mark}", tty=True)
        await shell.shows(b"ready")
        await eventually(lambda: len(running(mark)) == 2, "both sleeps run")
        if by == "typing":
            await shell.write(b"\x03")
        else:
            await shell.signal()
        ended = await shell.closed()
        assert (ended.code, ended.signal, ended.reason) == (130, "SIGINT", "signaled")
        await eventually(lambda: not running(mark), "the pipeline is gone")


async def test_interrupt_of_a_child_on_pipes(server: Program) -> None:
    """Lost: ^C for a command without a terminal, where a trap cleans up."""
    async with session(server.url) as client:
        shell = await client.shell("sh", "trap 'echo cleaned; exit 3' INT; echo ready; while :; do sleep 0.01; done")
        await shell.shows(b"ready")
        await shell.signal()
        ended = await shell.closed()
        assert (ended.stdout, ended.code, ended.reason) == (b"ready\ncleaned\n", 3, "exited")


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGTERM", "SIGSEGV", "SIGUSR1", "SIGPIPE"])
async def test_death_by_a_signal_is_128_plus_its_number(server: Program, name: str, tty: bool) -> None:
    """Lost: telling a crash from an exit; terminals and pipes must agree."""
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", f"kill -{name[3:]} $$; sleep 5", tty=tty)
        assert (ended.code, ended.signal, ended.reason) == (128 + signal.Signals[name], name, "signaled")


async def test_signals_are_default_in_a_child(server: Program) -> None:
    """Lost: ^C and broken pipes, where a child inherits what the server ignores or blocks."""
    async with session(server.url) as client:
        for tty in (False, True):
            ended = await client.run(f"sh{tty}", "/bin/cat", "/proc/self/status", tty=tty)
            lines = (ended.stdout + ended.pty).decode().splitlines()
            masks = dict(line.split(":\t") for line in lines if line.startswith(("SigIgn", "SigBlk")))
            assert int(masks["SigBlk"], 16) == 0
            assert int(masks["SigIgn"], 16) & 0x7FFFFFFF == 0


@pytest.mark.parametrize("tty", [False, True])
async def test_the_tail_of_the_output_comes_before_closed(server: Program, tty: bool) -> None:
    """Lost: the last lines of a command that exits at once (node-pty#72: 20,480 bytes, 100 times)."""
    script = "head -c 20480 /dev/zero | tr '\\0' x; echo failed >&2; exit 1"
    async with session(server.url) as client:
        for n in range(100):
            ended = await client.run(f"p{n}", "/bin/sh", "-c", script, tty=tty)
            assert (ended.stdout + ended.pty).count(b"x") == 20480, f"run {n}"
            assert ended.code == 1
            assert b"failed" in (ended.pty if tty else ended.stderr)
            assert ended.methods[-1] == "closed"


async def test_exit_is_told_while_a_grandchild_holds_the_pipe(server: Program) -> None:
    """Lost: an answer at all, where a background job keeps stdout open (codex#7846); terminate ends the job."""
    mark = marker()
    async with session(server.url) as client:
        shell = await client.shell("sh", f"sleep {mark} & echo early")
        assert (await shell.exited())["exitCode"] == 0
        assert (await shell.read())["closed"] is False
        assert await shell.terminate() is False
        ended = await shell.closed()
        assert (ended.stdout, ended.code, ended.reason) == (b"early\n", 0, "exited")
        await eventually(lambda: not running(mark), "the job is gone")


async def test_stdin_ends_with_its_child(server: Program) -> None:
    """Lost: the end of a grandchild that reads the stdin of a command which has exited."""
    async with session(server.url) as client:
        shell = await client.shell("sh", "exec 3<&0; (cat <&3; echo end) & echo early", pipeStdin=True)
        assert (await shell.closed()).stdout == b"early\nend\n"


async def test_output_of_a_grandchild_after_the_exit(server: Program, tmp_path: Path) -> None:
    """Lost: what a background job prints after its shell; `closed` comes when the last writer is gone."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with session(server.url) as client:
        shell = await client.shell("sh", f"(read x <{gate}; echo late) & echo early")
        await shell.exited()
        await asyncio.to_thread(gate.write_text, "go\n")
        ended = await shell.closed()
        assert ended.stdout == b"early\nlate\n"
        assert ended.methods == ["output", "exited", "output", "closed"]


async def test_closed_after_exit_bounds_the_wait_for_a_grandchild(server: Program) -> None:
    """Lost: `closed` within the time that the client asked for."""
    mark = marker()
    async with session(server.url) as client:
        shell = await client.shell("sh", f"sleep {mark} & echo early", closedAfterExitMs=50)
        assert (await shell.closed()).stdout == b"early\n"
        assert running(mark), "a background job was killed behind the user's back"


async def test_a_bash_that_replaces_its_stdout_does_not_hang(server: Program, tmp_path: Path) -> None:
    """Lost: process substitution (codex#7846)."""
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/bash", "-c", f"exec > >(tee {tmp_path}/f) 2>&1; echo logged")
        assert (ended.stdout, ended.code) == (b"logged\n", 0)


@pytest.mark.parametrize("size", [4095, 8191, 65535])
async def test_bytes_are_never_changed_for_text(server: Program, size: int) -> None:
    """Lost: a character that lies across two reads."""
    text = "a" * size + "€é😀" + "b" * 3000
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/sh", "-c", "stty raw -echo; echo ready; exec cat", tty=True)
        await cat.shows(b"ready")
        await cat.write(text.encode())
        await cat.shows(b"b" * 3000)
        assert cat.output().removeprefix(b"ready\r\n").removeprefix(b"ready\n") == text.encode()
        await cat.terminate()


async def test_all_256_byte_values_pass_both_ways(server: Program) -> None:
    """Lost: binary data."""
    data = bytes(range(256)) * 1000
    async with session(server.url) as client:
        head = await client.start("head", "/usr/bin/head", "-c", str(len(data)), pipeStdin=True)
        assert await head.write(data) == "accepted"
        assert (await head.closed()).stdout == data


async def test_a_paste_of_a_mebibyte_into_a_terminal(server: Program) -> None:
    """Lost: a paste of more than 8 KiB, which wedges servers that write without reading (mosh#1356)."""
    data = b"".join(b"%07d\n" % n for n in range(131072))
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/sh", "-c", "stty raw -echo; echo ready; exec cat", tty=True)
        await cat.shows(b"ready")
        for at in range(0, len(data), 65536):
            await client.send("process/write", **client.write_params("cat", data[at : at + 65536]))
        await client.until(lambda: cat.sizes["pty"] >= len(data) + 6, lambda: str(cat.sizes))
        assert cat.output().endswith(data)
        await cat.terminate()


async def test_an_endless_echo_between_two_sides_does_not_deadlock(server: Program) -> None:
    """Lost: a session in which both sides write at once (`yes | cat`, cpython#96522)."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True, keep=False)
        lines = b"y\n" * 32768
        for _ in range(160):
            await client.send("process/write", **client.write_params("cat", lines))
        await client.until(lambda: cat.sizes["stdout"] == 160 * 65536, lambda: str(cat.sizes))
        await cat.terminate()


async def test_many_lines_typed_into_cooked_cat(server: Program) -> None:
    """Lost: input beyond what a terminal's line buffers take. (Echoes may be: the kernel drops them when full.)"""
    lines = [b"line %04d\n" % n for n in range(3000)]
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/sh", "-c", "stty -echo; echo ready; exec cat", tty=True)
        await cat.shows(b"ready\r\n")
        for n in range(0, 3000, 100):
            await cat.write(b"".join(lines[n : n + 100]))
        await cat.write(b"\x04")
        assert (await cat.closed()).pty == b"ready\r\n" + b"".join(lines).replace(b"\n", b"\r\n")


async def test_pipelined_writes_stay_in_order(server: Program) -> None:
    """Lost: the order of what was typed."""
    words = [b"%d " % n for n in range(2000)]
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True)
        for word in words:
            await client.send("process/write", **client.write_params("cat", word))
        await cat.shows(words[-1])
        assert cat.output() == b"".join(words)
        await cat.terminate()


async def test_a_full_stdin_holds_up_nothing_else(server: Program) -> None:
    """Lost: terminate, while a child that does not read has its stdin full (telekinesis#61)."""
    async with session(server.url) as client:
        sleeper = await client.start("sleep", "/bin/sleep", "1000", pipeStdin=True)
        writes = [await client.send("process/write", **client.write_params("sleep", bytes(1 << 18))) for _ in range(8)]
        ping = await client.run("true", "/bin/true")
        assert ping.code == 0
        assert not writes[-1].done()
        reads = [await client.send("process/read", processId="sleep", waitMs=60_000) for _ in range(64)]
        assert await sleeper.terminate() is True
        ended = await sleeper.closed()
        assert (ended.code, ended.signal, ended.reason) == (137, "SIGKILL", "terminated")
        statuses = [(await each)["result"]["status"] for each in writes]
        assert statuses[0] == "accepted" and statuses[-1] == "stdinClosed"
        assert all([(await each)["result"]["exited"] for each in reads])


async def test_a_write_larger_than_the_queue_is_taken_when_it_is_empty(server: Program) -> None:
    """Lost: one big write."""
    data = os.urandom(3 << 20)
    async with session(server.url) as client:
        head = await client.start("head", "/usr/bin/head", "-c", str(len(data)), pipeStdin=True)
        assert await head.write(data) == "accepted"
        assert (await head.closed()).stdout == data


async def test_stdin_is_empty_unless_a_pipe_was_asked_for(server: Program) -> None:
    """Lost: `grep x` without files, which must not wait for ever (hermes, sandcastle)."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat")
        assert (await cat.closed()).code == 0
        assert await cat.write(b"x") == "stdinClosed"


async def test_writes_say_whether_they_can_arrive(server: Program) -> None:
    """Lost: knowing that input went nowhere."""
    async with session(server.url) as client:
        silent = await client.start("silent", "/bin/sleep", "1000")
        assert await silent.write(b"x") == "stdinClosed"
        assert await client.follow("nobody").write(b"x") == "unknownProcess"
        deaf = await client.shell("deaf", "exec <&-; echo ready; exec sleep 1000", pipeStdin=True)
        await deaf.shows(b"ready")
        assert [await deaf.write(b"x") for _ in range(2)] == ["stdinClosed"] * 2
        over = await client.start("over", "/bin/true", pipeStdin=True)
        await over.closed()
        assert await over.write(b"x") == "stdinClosed"
        for process in (silent, deaf):
            await process.terminate()


async def test_a_repeated_write_id_is_written_once(server: Program) -> None:
    """Lost: a client that repeats a write which it is not sure of."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True)
        for write_id in ("a", "a", "b", "a"):
            assert await cat.write(write_id.encode(), write_id) == "accepted"
        await cat.write(b"!")
        assert await cat.shows(b"!") == b"ab!"
        await cat.terminate()


async def test_a_repeated_write_id_is_accepted_after_the_exit_too(server: Program) -> None:
    """Lost: what became of input whose answer was lost in a cut, where the process ended meanwhile."""
    async with session(server.url) as client:
        reader = await client.start("p", "/bin/sh", "-c", "read x", pipeStdin=True)
        assert await reader.write(b"x\n", "a") == "accepted"
        await reader.closed()
        assert await reader.write(b"x\n", "a") == "accepted"
        assert await reader.write(b"x\n", "b") == "stdinClosed"


async def test_terminate_kills_the_tree(server: Program) -> None:
    """Lost: nothing stays behind that a command has started, whatever session or parent it chose."""
    mark = marker()
    script = (
        f"sleep {mark} & setsid sleep {mark} & nohup sleep {mark} &"
        f" (setsid sh -c 'sleep {mark} & sleep {mark}' &); echo ready; wait"
    )
    async with session(server.url) as client:
        shell = await client.shell("sh", script)
        await shell.shows(b"ready")
        await eventually(lambda: len(running(mark)) == 5, "all five run")
        assert await shell.terminate() is True
        ended = await shell.closed()
        assert (ended.code, ended.reason) == (137, "terminated")
        await eventually(lambda: not running(mark), "all five are gone")
        assert await shell.terminate() is False


async def test_terminate_of_what_is_gone_or_never_was(server: Program) -> None:
    """Lost: a safe way to make sure that something does not run."""
    async with session(server.url) as client:
        true = await client.start("true", "/bin/true")
        await true.closed()
        assert await true.terminate() is False
        assert await client.follow("nobody").terminate() is False
        await true.signal()
        await client.follow("nobody").signal()


async def test_a_terminate_that_follows_start_at_once(server: Program) -> None:
    """Lost: an early change of mind."""
    async with session(server.url) as client:
        for n in range(20):
            process = client.follow(f"p{n}", 1)
            started = await client.send("process/start", **start_params(f"p{n}", "/bin/sleep", "1000", tty=bool(n % 2)))
            assert await process.terminate() is True
            assert (await started)["result"]["processId"] == f"p{n}"
            ended = await process.closed()
            assert (ended.code, ended.reason) == (137, "terminated")


async def test_a_background_job_outlives_its_command(server: Program) -> None:
    """Lost: a dev server that a command leaves running; at the end of the session it goes."""
    mark = marker()
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", f"sleep {mark} >/dev/null 2>&1 & exit 0")
        assert ended.code == 0
        assert len(running(mark)) == 1
        await client.run("other", "/bin/true")
        assert len(running(mark)) == 1
        (pid,) = running(mark)
        os.kill(pid, signal.SIGKILL)


async def test_reads(server: Program) -> None:
    """Lost: reading what was printed, in pieces, as docs/protocol.md, "process/read" has it."""
    async with session(server.url) as client:
        shell = await client.shell("sh", "for i in 1 2 3; do echo line $i; sleep 0.02; done")
        await shell.closed()
        everything = await shell.read()
        assert [chunk["seq"] for chunk in everything["chunks"]] == [1, 2, 3]
        assert [chunk["offset"] for chunk in everything["chunks"]] == [0, 7, 14]
        assert everything["nextSeq"] == 6
        assert (everything["exited"], everything["exitCode"], everything["closed"]) == (True, 0, True)
        assert (everything["failure"], everything["sandboxDenied"], everything["evictedBytes"]) == (None, False, 0)
        one = await shell.read(maxBytes=1)
        assert (len(one["chunks"]), one["nextSeq"]) == (1, 2)
        rest = await shell.read(afterSeq=one["nextSeq"] - 1, maxBytes=14)
        assert ([chunk["seq"] for chunk in rest["chunks"]], rest["nextSeq"]) == ([2, 3], 6)
        beyond = await shell.read(afterSeq=99, waitMs=60_000)
        assert (beyond["chunks"], beyond["closed"]) == ([], True)


async def test_reads_that_wait(server: Program) -> None:
    """Lost: waiting for output instead of asking again and again (DesktopCommanderMCP#101)."""
    async with session(server.url) as client:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True)
        empty = await cat.read(waitMs=20)
        assert (empty["chunks"], empty["exited"], empty["nextSeq"]) == ([], False, 1)
        waits = [await client.send("process/read", processId="cat", waitMs=60_000) for _ in range(3)]
        await cat.write(b"x")
        assert [len((await each)["result"]["chunks"]) for each in waits] == [1, 1, 1]
        to_the_exit = await client.send("process/read", processId="cat", afterSeq=1, waitMs=10**15)
        await cat.terminate()
        result = (await to_the_exit)["result"]
        assert (result["chunks"], result["exited"], result["exitCode"], result["signal"]) == ([], True, 137, "SIGKILL")


async def test_a_finished_process_never_makes_a_read_wait(server: Program) -> None:
    """Lost: polling a finished process hung for 30 minutes (hermes-agent#64533)."""
    async with session(server.url) as client:
        true = await client.start("true", "/bin/true")
        await true.closed()
        for after in (0, 1, 2, 3, 50):
            assert (await true.read(afterSeq=after, waitMs=3_600_000))["closed"] is True


async def test_a_read_of_the_exit_before_closed_then_waits_for_closed(server: Program) -> None:
    """Lost: the difference between exited and closed (docs/protocol.md, "process/read")."""
    async with session(server.url) as client:
        shell = await client.shell("sh", f"sleep {marker()} & exit 4")
        first = await shell.read(waitMs=60_000)
        assert (first["exited"], first["exitCode"], first["closed"], first["nextSeq"]) == (True, 4, False, 2)
        second = await client.send("process/read", processId="sh", afterSeq=1, waitMs=60_000)
        await client.run("other", "/bin/true")
        assert not second.done()
        await shell.terminate()
        assert (await second)["result"]["closed"] is True


async def test_what_was_evicted_is_counted(server: Program) -> None:
    """Lost: knowing that output is missing (codex#35421)."""
    async with session(server.url) as client:
        flood = await client.start("flood", "/bin/sh", "-c", "head -c 5000000 /dev/zero", keep=False)
        await flood.closed()
        assert flood.sizes["stdout"] == 5_000_000
        result = await flood.read()
        assert result["evictedBytes"] > 0
        assert result["firstRetainedOffset"] == result["evictedBytes"]
        assert result["chunks"][0]["seq"] == result["firstRetainedSeq"]
        last = result["chunks"][-1]
        assert result["nextSeq"] == last["seq"] + 3


async def test_an_unknown_process_is_its_own_error(server: Program) -> None:
    """Lost: telling a wrong id from a process that is over (fak#10752)."""
    async with session(server.url) as client:
        error = await expect_error(client.follow("nobody").read())
        assert (error.code, error.message) == (-32600, "unknown process id nobody")


async def test_an_id_in_use_is_refused_and_a_failed_start_frees_it(server: Program) -> None:
    """Lost: a second process under the name of the first."""
    async with session(server.url) as client:
        error = await expect_error(client.start("x", "/no/such/program"))
        assert error.code == -32603
        await client.run("x", "/bin/true")
        error = await expect_error(client.start("x", "/bin/true"))
        assert (error.code, error.message) == (-32600, "process x already exists")


async def test_what_could_not_be_started_is_named(server: Program, tmp_path: Path) -> None:
    """Lost: whether the program or the directory is missing (codex#20770)."""
    plain = tmp_path / "plain"
    plain.write_text("echo hello\n")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    cases = [
        (["/no/such/program"], {}, "spawnNotFound", "program"),
        (["no-such-program"], {}, "spawnNotFound", "program"),
        (["/bin/true"], {"cwd": "file:///no/such/dir"}, "spawnNotFound", "cwd"),
        (["/bin/true"], {"cwd": f"file://{plain}"}, "spawnFailed", "cwd"),
        ([str(plain)], {}, "spawnPermissionDenied", "program"),
        ([str(tmp_path)], {}, "spawnPermissionDenied", "program"),
        ([str(script)], {}, "spawnNotFound", "interpreter"),
        ([""], {}, "spawnFailed", "program"),
        (["/bin/true", "a\0b"], {}, "spawnFailed", "argv"),
        (["/bin/true"], {"env": {"A": "b\0"}}, "spawnFailed", "env"),
        (["/bin/true", "x" * 200_000], {}, "spawnFailed", "size"),
    ]
    async with session(server.url) as client:
        for tty in (False, True):
            for argv, params, kind, reason in cases:
                error = await expect_error(client.start("p", *argv, tty=tty, **params))
                assert error.code == -32603
                if not (tty and argv == ["no-such-program"]):
                    assert (error.data["kind"], error.data["reason"]) == (kind, reason), (argv, params, tty, str(error))
            assert (await client.run(f"again{tty}", "/bin/true", tty=tty)).code == 0


async def test_the_environment_is_exact(server: Program) -> None:
    """Lost: knowing what a command sees; nothing of the server leaks into it."""
    async with session(server.url) as client:
        ended = await client.run("pipe", "/usr/bin/env", "-0", env={"A": "1 2", "B": "€"})
        assert sorted(ended.stdout.split(b"\0")) == [b"", b"A=1 2", "B=€".encode()]
        ended = await client.run("tty", "/usr/bin/env", env={"A": "1"}, tty=True)
        names = [line.split(b"=")[0] for line in ended.pty.splitlines()]
        assert names == [b"A", b"SHELL"]
        policy = {"inherit": "all", "ignoreDefaultExcludes": False, "exclude": [], "set": {"NEW": "1"}}
        policy["includeOnly"] = []
        ended = await client.run("policy", "/usr/bin/env", env={"OWN_TOKEN": "kept"}, envPolicy=policy)
        inherited = dict(line.split(b"=", 1) for line in ended.stdout.splitlines() if b"=" in line)
        assert inherited[b"NEW"] == b"1" and inherited[b"OWN_TOKEN"] == b"kept" and b"PATH" in inherited
        assert not [name for name in inherited if name.startswith(b"EXEC_SERVER_")]


async def test_a_child_has_three_descriptors_and_its_own_session(server: Program) -> None:
    """Lost: isolation of one command from the files of another."""
    async with session(server.url) as client:
        others = [await client.start(f"s{n}", "/bin/sleep", "1000", tty=bool(n % 2)) for n in range(4)]
        for tty in (False, True):
            ended = await client.run(f"ls{tty}", "/bin/ls", "/proc/self/fd", tty=tty)
            assert (ended.stdout + ended.pty).split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing itself
            ended = await client.run(f"ps{tty}", "/bin/sh", "-c", "ps -o pid=,pgid=,sid= -p $$", tty=tty)
            assert len(set((ended.stdout + ended.pty).split())) == 1
        for other in others:
            await other.terminate()


async def test_a_terminal_that_nobody_has_open_for_a_while(server: Program) -> None:
    """Lost: a child that closes and reopens its terminal must not be hung up on."""
    script = "exec </dev/null >/dev/null 2>&1; sleep 0.3; exec >/dev/tty; echo back"
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", script, tty=True)
        assert (ended.pty, ended.code) == (b"back\r\n", 0)


async def test_a_child_that_closes_its_output_early(server: Program) -> None:
    """Lost: the exit of a daemon that lets go of its pipes before it ends."""
    async with session(server.url) as client:
        ended = await client.run("sh", "/bin/sh", "-c", "exec >&- 2>&-; sleep 0.05; exit 9")
        assert (ended.code, ended.methods) == (9, ["exited", "closed"])


async def spawned_pid(client: Client, process_id: str) -> int:
    shell = await client.shell(process_id, "echo $$; exec sleep 1000")
    return int(await shell.shows(b"\n"))


async def test_a_child_that_is_stopped_dies_of_terminate(server: Program) -> None:
    """Lost: ending a command that was suspended with ^Z."""
    async with session(server.url) as client:
        pid = await spawned_pid(client, "sleep")
        os.kill(pid, signal.SIGSTOP)
        await client.processes["sleep"].terminate()
        assert (await client.processes["sleep"].closed()).code == 137
        assert not alive(pid)


async def test_a_disk_that_hangs_for_one_session_delays_no_other(server: Program, tmp_path: Path) -> None:
    """Lost: all sessions, to the network disk of one that has gone away."""
    disk = HangingProgram(tmp_path / "program")
    async with session(server.url) as lost, session(server.url) as other:
        before = len(server.children())
        params = [start_params(f"p{number}", disk.path) for number in range(2 * LANE_SIZE)]
        starts = [asyncio.create_task(lost.call("process/start", **each)) for each in params]
        await eventually(lambda: len(server.children()) >= before + LANE_SIZE, "they hang")
        assert (await other.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
        shell = await other.shell("shell", "(setsid sh -c 'echo ready; exec sleep 1000' &); sleep 1000", tty=True)
        await shell.shows(b"ready")
        assert await shell.terminate()
        await shell.closed()
        assert not any(start.done() for start in starts)
        disk.go_on()
        await asyncio.gather(*starts)
