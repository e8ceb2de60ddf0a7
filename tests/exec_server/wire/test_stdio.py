"""The server on stdin and stdout: one client, whose session ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import msgspec
import pytest

from tests.support.client import PATIENCE_S, expect_error, result_of, start_params
from tests.support.program import ROOT, command, eventually, launched, marker, running, stdio_program

pytestmark = pytest.mark.anyio

HELLO = [
    {"id": "hello", "method": "initialize", "params": {"clientName": "pipe", "resumeSessionId": None}},
    {"method": "initialized"},
]


def piped(*messages: object, end: bytes = b"\n", **options: object) -> tuple[list[dict[str, object]], int]:
    """Send all lines in one go, end the input; what came back, and the exit status."""
    lines = b"".join(msgspec.json.encode(message) + end for message in (*HELLO, *messages))
    done = subprocess.run(command(), input=lines, stdout=subprocess.PIPE, timeout=PATIENCE_S, cwd=ROOT)
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()], done.returncode


async def test_a_whole_session_on_stdio() -> None:
    """Lost: the server as somebody's subprocess."""
    async with stdio_program() as (client, server):
        await client.initialize()
        assert (await client.run("sh", "/bin/sh", "-c", "echo hi; exit 3")).code == 3
        cat = await client.start("cat", "/bin/cat", tty=True)
        await cat.write(b"typed\n\x04")
        assert (await cat.closed()).pty == b"typed\r\ntyped\r\n"
        client.link.end_input()
        assert await asyncio.to_thread(server.wait) == 0


def test_everything_that_was_asked_is_answered_at_the_end_of_the_input() -> None:
    """Lost: 1 to 29 of 50 answers, where the input ends right behind the requests (docs/wire-spec.md, "stdio")."""
    asked = [{"id": n, "method": "environment/status", "params": {}} for n in range(50)]
    answers, status = piped(*asked)
    assert [answer["id"] for answer in answers] == ["hello", *range(50)]
    assert status == 0


def test_starts_at_the_end_of_the_input_are_answered() -> None:
    """Lost: answers that take a moment to make."""
    asked = [
        {"id": n, "method": "process/start", "params": start_params(f"p{n}", "/bin/sleep", "1000")} for n in range(50)
    ]
    answers, status = piped(*asked, end=b"\r\n")
    assert {answer["id"] for answer in answers if "result" in answer} == {"hello", *range(50)}
    assert status == 0


def test_waits_are_answered_with_what_there_is_at_the_end_of_the_input() -> None:
    """Lost: the end of the program, for as long as the longest wait; its children end with it."""
    mark = marker()
    answers, status = piped(
        {"id": 1, "method": "process/start", "params": start_params("s", "/bin/sleep", mark, pipeStdin=True)},
        *({"id": n, "method": "process/read", "params": {"processId": "s", "waitMs": 3_600_000}} for n in range(2, 20)),
        {"id": 20, "method": "process/write", "params": {"processId": "s", "writeId": "a", "chunk": "AAAA" * 600_000}},
        {"id": 21, "method": "process/write", "params": {"processId": "s", "writeId": "b", "chunk": "AAAA" * 600_000}},
    )
    by_id = {answer.get("id"): answer for answer in answers}
    assert status == 0
    assert all(by_id[n]["result"]["chunks"] == [] for n in range(2, 20))
    assert by_id[20]["result"]["status"] == "accepted"
    assert "error" in by_id[21]
    assert not running(mark)


@contextlib.contextmanager
def with_large_answers(count: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has been asked `count` times for what a child has printed, 1.3 MB each; its input has ended."""
    script = "head -c 1000000 /dev/zero; exec sleep 1000"
    with launched(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        start = {"id": "start", "method": "process/start", "params": start_params("s", "/bin/sh", "-c", script)}
        server.stdin.write(b"".join(msgspec.json.encode(message) + b"\n" for message in (*HELLO, start)))
        server.stdin.flush()
        got = 0
        while got < 1_000_000:
            line = msgspec.json.decode(server.stdout.readline())
            got += len(line["params"]["chunk"]) * 3 // 4 if "params" in line else 0
        reads = [{"id": n, "method": "process/read", "params": {"processId": "s"}} for n in range(count)]
        server.stdin.write(b"".join(msgspec.json.encode(read) + b"\n" for read in reads))
        server.stdin.close()
        yield server


def check_large_answers(data: bytes, count: int) -> None:
    answers = [line for line in map(msgspec.json.decode, data.splitlines()) if "result" in line]
    assert [answer["id"] for answer in answers] == list(range(count))
    assert all(sum(len(c["chunk"]) for c in answer["result"]["chunks"]) > 1_300_000 for answer in answers)


def test_large_answers_arrive_whole_at_the_end_of_the_input() -> None:
    """Lost: what the reader of stdout has still to take."""
    with with_large_answers(20) as server:
        assert server.stdout is not None
        check_large_answers(server.stdout.read(), 20)
        assert server.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_a_slow_reader_gets_every_answer_after_the_end_of_the_input() -> None:
    """Lost: the rest of the answers, where their reader takes more than 5 seconds for them, but does read."""
    with with_large_answers(40) as server:
        assert server.stdout is not None
        data = bytearray()
        deadline = time.monotonic() + 8.0
        while time.monotonic() < deadline:  # the reader is slow by intention
            data += os.read(server.stdout.fileno(), 65536)
            time.sleep(0.02)
        data += server.stdout.read()
        check_large_answers(bytes(data), 40)
        assert server.wait(PATIENCE_S) == 0


def test_an_endless_child_does_not_keep_the_session_at_the_end_of_the_input() -> None:
    """Lost: the end of the program, while a child prints and somebody reads all of it."""
    answers, status = piped(
        {"id": 1, "method": "process/start", "params": start_params("yes", "/usr/bin/yes")},
        {"id": 2, "method": "environment/status"},
    )
    assert status == 0
    assert {answer.get("id") for answer in answers} >= {1, 2}


def test_nobody_reads_stdout() -> None:
    """Lost: the end of the program, and of its children, while its output is stuck: 5 seconds are enough."""
    mark = marker()
    with launched(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        for message in (
            *HELLO,
            {"id": 1, "method": "process/start", "params": start_params("yes", "/bin/sh", "-c", f"sleep {mark} & yes")},
        ):
            server.stdin.write(msgspec.json.encode(message) + b"\n")
        server.stdin.close()
        assert server.wait(PATIENCE_S) == 0
    assert not running(mark)


@pytest.mark.parametrize("how", ["reader closed", "full disk"])
def test_broken_stdout_ends_the_server(how: str) -> None:
    """Lost: a server that nobody can hear, and its children."""
    mark = marker()
    read_end, write_end = os.pipe()
    output = write_end if how == "reader closed" else os.open("/dev/full", os.O_WRONLY)
    with launched(command(), stdin=subprocess.PIPE, stdout=output) as server:
        os.close(write_end)
        os.close(read_end)
        if how == "full disk":
            os.close(output)
        assert server.stdin is not None
        try:
            for message in (
                *HELLO,
                {"id": 1, "method": "process/start", "params": start_params("s", "/bin/sleep", mark)},
            ):
                server.stdin.write(msgspec.json.encode(message) + b"\n")
                server.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone already
        assert server.wait(PATIENCE_S) == 0
    assert not running(mark)


async def test_bad_lines_do_not_end_the_connection() -> None:
    """Lost: a session to one bad line; also a line of 70,000 bytes (kimi-cli#831), blank lines and CRLF."""
    async with stdio_program() as (client, _):
        await client.initialize()
        for line in (b"{", b"[]", b"5", b'{"id":1e3,"method":"x"}', b'{"id":1,"id":2,"method":"x"}'):
            await client.link.send(line)
        for line in (b"", b"  ", b"\r"):
            await client.link.send(line)
        await client.until(lambda: len(client.strangers) == 5)
        assert {each["error"]["code"] for each in client.strangers} == {-32600}
        long = await client.run("echo", "/bin/echo", "x" * 70_000)
        assert len(long.stdout) == 70_001
        error = await expect_error(client.call("x" * 1_000_000))
        assert error.code == -32601


async def test_a_violation_ends_the_program_after_what_was_queued() -> None:
    """Lost: the error just before the end; upstream hangs until its stdin ends (docs/wire-spec.md, "stdio")."""
    async with stdio_program() as (client, server):
        await client.initialize()
        answer = await client.send("no/such")
        await client.notify("process/start")
        error = await expect_error(result_of(answer))
        assert error.code == -32601
        assert await asyncio.to_thread(server.wait) == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_a_server_on_stdio(signum: int) -> None:
    """Lost: a clean end by a supervisor."""
    mark = marker()
    async with stdio_program() as (client, server):
        await client.initialize()
        shell = await client.shell("sh", f"setsid sleep {mark} & echo ready; sleep {mark}")
        await shell.shows(b"ready")
        assert await asyncio.to_thread(server.stop, signum) == 0
        await eventually(lambda: not running(mark), "all are gone")


def test_a_session_on_stdio_cannot_be_resumed_by_another_program() -> None:
    """Lost: nothing; but it must say so."""
    answers, status = piped()
    session_id = answers[0]["result"]["sessionId"]  # type: ignore[index]
    line = {"id": 1, "method": "initialize", "params": {"clientName": "x", "resumeSessionId": session_id}}
    done = subprocess.run(
        command(), input=msgspec.json.encode(line) + b"\n", stdout=subprocess.PIPE, timeout=PATIENCE_S, cwd=ROOT
    )
    assert msgspec.json.decode(done.stdout)["error"]["message"] == f"unknown session id {session_id}"
    assert (status, done.returncode) == (0, 0)
