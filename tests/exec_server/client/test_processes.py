"""Handles of processes, over every way to a server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from exec_server import Closed, ExecServerClient, Exited, Output, connect_websocket
from exec_server.client.text import CutLine, LineTooLong
from protocol.errors import ExecServerError, InvalidParams, InvalidRequest, SpawnError, UnknownProcess
from protocol.process import ProcessListParams, ProcessListResult
from tests.support.program import Program, alive, eventually, marker, running

pytestmark = pytest.mark.anyio


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


# -- over every way -----------------------------------------------------------------------------------------------


async def test_run(client: ExecServerClient) -> None:
    """Lost: the first thing that anybody tries."""
    done = await client.run(sh("echo out; echo err >&2; exit 3"))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


async def test_large_output_and_input_arrive_whole(client: ExecServerClient) -> None:
    """Lost: a byte, where chunks and pieces are put together."""
    data = os.urandom(1 << 20) * 7
    done = await client.run(["cat"], input=data)
    assert done.stdout == data


async def test_events_come_in_order(client: ExecServerClient) -> None:
    process = await client.start(sh("echo one; echo two >&2; exit 5"))
    events = [event async for event in process.events]
    assert [type(event) for event in events] == [Output, Output, Exited, Closed]
    assert sorted((each.stream, each.data) for each in events if isinstance(each, Output)) == [
        ("stderr", b"two\n"),
        ("stdout", b"one\n"),
    ]
    assert [getattr(event, "seq", 0) for event in events] == [1, 2, 3, 4]


async def test_events_before_anybody_listens_are_kept(client: ExecServerClient) -> None:
    """Lost: what a process says before its handle is looked at."""
    process = await client.start(sh("echo early; exit 6"))
    assert await process.wait() == 6
    assert await client.list()
    assert [event.data async for event in process.output] == [b"early\n"]


async def test_a_terminal_is_typed_into_and_resized(client: ExecServerClient) -> None:
    """Lost: interactive programs."""
    process = await client.start(sh("stty size; read word; stty size; echo got $word"), tty=True, rows=10, cols=33)
    assert await process.stdout.readline() == b"10 33\r\n"
    await process.resize(20, 44)
    await process.write(b"hello\n")
    lines = [line async for line in process.stdout.lines()]
    assert lines == ["hello", "20 44", "got hello"]
    assert await process.wait() == 0


async def test_a_start_that_fails_leaves_its_id_free(client: ExecServerClient) -> None:
    with pytest.raises(SpawnError, match="program /no/such") as failed:
        await client.start(["/no/such"], process_id="p")
    assert failed.value.data is not None and failed.value.data["kind"] == "spawnNotFound"
    async with await client.start(["true"], process_id="p") as process:
        assert await process.wait() == 0


async def test_two_processes_at_once_are_kept_apart(client: ExecServerClient) -> None:
    one = await client.start(["cat"], stdin=subprocess.PIPE)
    two = await client.start(["cat"], stdin=subprocess.PIPE)
    await asyncio.gather(one.write(b"to one"), two.write(b"to two"))
    assert await asyncio.gather(one.communicate(), two.communicate()) == [(b"to one", b""), (b"to two", b"")]


async def test_what_runs_at_the_end_is_killed(server: Program) -> None:
    """Lost: processes that nobody knows of any more, after every script that failed half way."""
    mark = marker()
    async with connect_websocket(server.url) as client:
        await client.start(["sleep", mark])
        await client.start(sh(f"trap '' TERM; setsid sleep {mark}"))
        await eventually(lambda: len(running(mark)) == 2, "both run")
    await eventually(lambda: not running(mark), "both are gone")


# -- how a process ends ---------------------------------------------------------------------------------------------


async def test_a_status_says_code_or_signal(one_client: ExecServerClient) -> None:
    """Lost: whether 137 was an exit code or a kill."""
    by_code = await (await one_client.start(sh("exit 137"))).wait()
    assert (by_code, by_code.code, by_code.signal, by_code.reason) == (137, 137, None, "exited")
    by_signal = await (await one_client.start(sh("kill -9 $$"))).wait()
    assert (by_signal, by_signal.code, by_signal.signal) == (-9, None, "SIGKILL")


async def test_signals_by_number_and_name(one_client: ExecServerClient) -> None:
    for how in (signal.SIGINT, "SIGUSR1"):
        process = await one_client.start(
            sh("trap 'exit 40' INT; trap 'exit 40' USR1; echo on; while :; do sleep 0.01; done")
        )
        assert await process.stdout.readline() == b"on\n"
        assert process.returncode is None
        await process.signal(how)
        assert await process.wait() == 40
        assert process.returncode == 40
    with pytest.raises(ValueError, match="SIGNONE"):
        await process.signal("SIGNONE")


async def test_terminate_gives_time_and_kill_does_not(one_client: ExecServerClient) -> None:
    polite = await one_client.start(sh("trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 0.01; done"))
    assert await polite.stdout.readline() == b"on\n"
    assert await polite.terminate()
    assert await polite.stdout.read() == b"bye\n"
    assert await polite.wait() == 0
    deaf = await one_client.start(sh("trap '' TERM; echo on; while :; do sleep 0.01; done"))
    assert await deaf.stdout.readline() == b"on\n"
    assert await deaf.terminate(grace=0.05)
    assert await deaf.wait() == -9
    assert not await deaf.kill()


async def test_a_process_that_ended_is_not_kept(one_client: ExecServerClient) -> None:
    """Lost: memory, in a client that lives for months."""
    for _ in range(3):
        await one_client.run(["true"])
    assert one_client._demultiplexer.process_ids == []


async def test_a_block_kills_what_it_leaves(one_client: ExecServerClient) -> None:
    async with await one_client.start(["sleep", "1000"]) as process:
        pass
    assert await process.wait() == -9


# -- ids ------------------------------------------------------------------------------------------------------------


async def test_a_live_id_cannot_be_started_again(one_client: ExecServerClient) -> None:
    """Nothing is sent: the events of two processes would go to one handle."""
    await one_client.start(["sleep", "1000"], process_id="one")
    with pytest.raises(InvalidRequest, match=r"^session already registered for process one$"):
        await one_client.start(["true"], process_id="one")


async def test_a_process_of_a_detached_session_is_taken_over(server: Program) -> None:
    """Lost: everything that a program left running for its next run."""
    async with connect_websocket(server.url, session_ttl=60) as client:
        await client.start(sh("echo kept; read x; echo $x"), stdin=subprocess.PIPE, process_id="job")
        session_id = await client.detach()
    async with connect_websocket(server.url, resume_session_id=session_id) as client:
        assert [each.process_id for each in await client.list()] == ["job"]
        job = await client.attach("job")
        assert await job.stdout.readline() == b"kept\n"
        await job.write(b"again\n")
        assert await job.stdout.readline() == b"again\n"
        assert await job.wait() == 0
        with pytest.raises(UnknownProcess):
            await client.attach("nothing")


async def test_a_session_that_is_gone_cannot_be_resumed(server: Program) -> None:
    with pytest.raises(InvalidRequest, match="unknown session id"):
        async with connect_websocket(server.url, resume_session_id="gone"):
            pass


# -- input ----------------------------------------------------------------------------------------------------------


async def test_writes_are_done_in_the_order_of_their_calls(one_client: ExecServerClient) -> None:
    process = await one_client.start(["cat"], stdin=subprocess.PIPE)
    parts = [bytes([97 + n]) * (n * 50_000 + 1) for n in range(20)]
    reading = asyncio.create_task(process.stdout.read())
    await asyncio.gather(*(process.write(part) for part in parts))
    await process.close_stdin()
    assert await reading == b"".join(parts)


async def test_writing_to_nobody_is_a_broken_pipe(one_client: ExecServerClient) -> None:
    """Lost: the difference between input that arrived and input that did not."""
    ended = await one_client.start(["true"], stdin=subprocess.PIPE)
    await ended.wait()
    with pytest.raises(BrokenPipeError):
        await ended.write(b"x")
    await ended.close_stdin()
    never_open = await one_client.start(["sleep", "1000"])
    with pytest.raises(BrokenPipeError):
        await never_open.write(b"x")


async def test_input_that_is_not_read_is_no_error_of_communicate(one_client: ExecServerClient) -> None:
    process = await one_client.start(sh("echo done"), stdin=subprocess.PIPE)
    assert await process.communicate(b"x" * 3_000_000) == (b"done\n", b"")


# -- text -----------------------------------------------------------------------------------------------------------


async def test_text_has_no_broken_characters(one_client: ExecServerClient) -> None:
    """Lost: every character that falls on the edge of a chunk."""
    process = await one_client.start(sh(r"printf '\342'; sleep 0.05; printf '\202'; sleep 0.05; printf '\254\377'"))
    assert [text async for text in process.stdout.text()] == ["€�"]


async def test_lines_have_a_limit(one_client: ExecServerClient) -> None:
    process = await one_client.start(sh("echo short; head -c 5000 /dev/zero; echo; echo last"))
    lines = process.stdout
    assert await lines.readline(limit=1000) == b"short\n"
    with pytest.raises(LineTooLong):
        while True:
            await lines.readline(limit=1000)
    assert [line async for line in process.stdout.lines()][-1] == "last"


async def test_streams_are_read_apart_or_together(one_client: ExecServerClient) -> None:
    process = await one_client.start(sh("echo one; echo two >&2; echo three"))
    assert await process.stderr.readline() == b"two\n"
    assert await process.stdout.read(2) == b"on"
    assert b"".join([chunk async for chunk in process.stdout]) == b"e\nthree\n"
    process = await one_client.start(sh("echo one; echo two >&2"))
    assert {chunk.stream: chunk.data async for chunk in process.output} == {"stdout": b"one\n", "stderr": b"two\n"}


# -- run ------------------------------------------------------------------------------------------------------------


async def test_run_checks(one_client: ExecServerClient) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 4") as failed:
        await one_client.run(sh("echo why >&2; exit 4"), check=True)
    assert failed.value.stderr == b"why\n"


async def test_a_timeout_of_run_keeps_the_output_and_kills(one_client: ExecServerClient) -> None:
    """Lost: what a command said before it hung, which tells why."""
    mark = marker()
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        await one_client.run(sh(f"echo so far; setsid sleep {mark}"), timeout=0.5)
    assert expired.value.output == b"so far\n"
    await eventually(lambda: not running(mark), "its descendants are gone")


async def test_a_timeout_of_communicate_loses_nothing(one_client: ExecServerClient) -> None:
    process = await one_client.start(sh("echo one; read x; echo two"), stdin=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        await process.communicate(b"\n", timeout=0)
    assert expired.value.output in (b"", b"one\n")
    assert await process.communicate() == (b"one\ntwo\n", b"")


async def test_a_cancelled_run_kills(one_client: ExecServerClient) -> None:
    mark = marker()
    task = asyncio.create_task(one_client.run(["sleep", mark]))
    await eventually(lambda: running(mark), "it runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not running(mark), "it is gone")


async def test_a_cancelled_start_leaves_nothing(one_client: ExecServerClient) -> None:
    """Lost: a process that nobody has a handle of."""
    mark = marker()
    task = asyncio.create_task(one_client.start(["sleep", mark], process_id="p"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await one_client.list()
    await eventually(lambda: not running(mark), "it is gone")


# -- what it starts with ----------------------------------------------------------------------------------------------


async def test_folder_and_environment(one_client: ExecServerClient, tmp_path: os.PathLike[str]) -> None:
    done = await one_client.run(sh("pwd; echo $A; echo ${HOME:-none}"), cwd=tmp_path, env={"A": "b"})
    assert done.stdout.decode().split() == [os.path.realpath(tmp_path), "b", "none"]
    done = await one_client.run(sh("echo ${PATH:+inherited}; pwd"))
    assert done.stdout.decode().split() == ["inherited", os.getcwd()]


async def test_what_cannot_be_asked_is_refused_by_name(one_client: ExecServerClient) -> None:
    with pytest.raises(NotImplementedError, match="pass_fds"):
        await one_client.start(["true"], pass_fds=[3])
    with pytest.raises(TypeError, match="sh"):
        await one_client.run("ls -l")
    with pytest.raises(ValueError, match="stdin"):
        await one_client.start(["true"], stdin=subprocess.STDOUT)
    with pytest.raises(InvalidParams, match="rows"):
        await one_client.start(["true"], tty=True, rows=0)
    with pytest.raises(InvalidParams, match="cannot be sent"):
        await one_client.start(["echo", "\ud800"])
    assert (await one_client.run(["true"])).returncode == 0


async def test_any_request_can_be_made(one_client: ExecServerClient) -> None:
    result = await one_client.call(ProcessListParams())
    assert result == ProcessListResult([])
    with pytest.raises(ExecServerError):
        await one_client.call(ProcessListParams(session_id="unknown"))
    assert alive(os.getpid())


async def test_input_is_given_once(one_client: ExecServerClient) -> None:
    """Lost: the rest of the input, without a word."""
    process = await one_client.start(["sh", "-c", "read go; wc -c"], stdin=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        await process.communicate(b"x" * 3_000_000, timeout=0.05)
    with pytest.raises(ValueError, match="its input already"):
        await process.communicate(b"x" * 3_000_000)
    await process.kill()


async def test_communicate_goes_on_where_it_was_given_up(one_client: ExecServerClient, tmp_path: Path) -> None:
    """Lost: the rest of the input, without a word."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = await one_client.start(["sh", "-c", 'read go < "$0"; wc -c', str(gate)], stdin=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        await process.communicate(b"x" * 2_200_000, timeout=0.05)
    cancelled = asyncio.create_task(process.communicate())
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    gate.write_text("go\n")
    assert (await process.communicate())[0].strip() == b"2200000"


async def test_a_write_that_was_cancelled_is_whole(one_client: ExecServerClient, tmp_path: Path) -> None:
    """Lost: an unknown part of the input."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = await one_client.start(["sh", "-c", 'read go < "$0"; wc -c', str(gate)], stdin=subprocess.PIPE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.write(b"x" * 3_000_000), 0.05)
    gate.write_text("go\n")
    await process.write(b"y")
    await process.close_stdin()
    assert (await process.communicate())[0].strip() == b"3000001"


async def test_lines_that_are_too_long_are_cut_and_the_next_follow(one_client: ExecServerClient) -> None:
    """Lost: everything behind one long line."""
    script = "echo first; head -c 119000 /dev/zero | tr '\\0' y; echo; echo second; head -c 3000 /dev/zero | tr '\\0' z"
    process = await one_client.start(sh(script))
    lines = [line async for line in process.stdout.lines(limit=1000, too_long="cut")]
    assert lines == ["first", "y" * 1000, "second", "z" * 1000]
    assert [line.missing for line in lines if isinstance(line, CutLine)] == [118_000, 2000]


async def test_a_raw_terminal_takes_lines_of_any_length(one_client: ExecServerClient) -> None:
    """Lost: what is behind the 4095th byte of a line, which a terminal drops unless it is raw."""
    process = await one_client.start(["head", "-c", "6001"], tty=True, raw=True)
    await process.write(b"a" * 6000 + b"\n")
    assert await process.communicate() == (b"a" * 6000 + b"\n", b"")


async def test_a_terminal_that_does_not_echo(one_client: ExecServerClient) -> None:
    """Lost: a secret, which is on the screen before the program can switch that off."""
    process = await one_client.start(sh("read secret; echo ${#secret}"), tty=True, echo=False)
    await process.write(b"secret\n")
    assert await process.communicate() == (b"6\r\n", b"")
