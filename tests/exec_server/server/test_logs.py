"""The log on stderr: whole lines, in JSON or text, that say what they are about and hold no secret."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import subprocess
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from exec_server.server.logs import WAITING_LIMIT, JsonFormatter, StderrHandler, TextFormatter
from tests.support.client import PATIENCE_S, session
from tests.support.program import ROOT, eventually, program

pytestmark = pytest.mark.anyio


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of JSON in a file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


async def test_lines_say_what_they_are_about(tmp_path: Path) -> None:
    """Lost: which session and process a line is about; or the power over a session, to readers of the log."""
    path = tmp_path / "stderr"
    with path.open("wb") as stderr, program("--log-level", "info", stderr=stderr) as server:
        async with session(server.url) as client:
            await client.run("my build", "/bin/sh", "-c", "exit 3 # SECRETarg")
            session_id = client.session_id
        await eventually(lambda: any(line["message"] == "session detached" for line in lines(path)), "all is logged")
        tag = sha256(session_id.encode()).hexdigest()[:16]
        found = {line["message"]: line for line in lines(path) if line.get("session") == tag}
        assert {"session attached", "process started", "process exited", "session detached"} <= set(found)
        exited = found["process exited"]
        assert (exited["process"], exited["exit_code"], exited["reason"]) == ("my build", 3, "exited")
        assert exited["pid"] == found["process started"]["pid"]
        assert exited["level"] == "info"
        assert datetime.fromisoformat(exited["time"]).tzinfo is not None
        text = path.read_text()
        assert session_id not in text
        assert "SECRET" not in text


def test_the_document_shows_a_line() -> None:
    """Lost: what to parse."""
    example = json.loads(
        (ROOT / "docs" / "operation.md").read_text().partition("<!-- log -->\n```json\n")[2].partition("```")[0]
    )
    record = logging.LogRecord(example["logger"], logging.INFO, "", 0, "process exited", None, None)
    record.about = {name: example[name] for name in ("session", "process", "pid", "exit_code", "reason")}
    made = json.loads(JsonFormatter().format(record))
    assert {**made, "time": ""} == {**example, "time": ""}
    assert list(made) == list(example)


@pytest.mark.parametrize(("form", "as_text"), [("auto", True), ("text", True), ("json", False)])
async def test_text_on_a_terminal(form: str, as_text: bool) -> None:
    """Lost: a log that people can read."""
    master, slave = pty.openpty()
    try:
        with program("--log-level", "info", "--log-format", form, stderr=slave) as server:
            async with session(server.url) as client:
                await client.run("p", "/bin/true")
            said = b""
            async with asyncio.timeout(PATIENCE_S):
                while b"process exited" not in said or not said.endswith(b"\n"):
                    said += await asyncio.to_thread(os.read, master, 65536)
    finally:
        os.close(master)
        os.close(slave)
    line = next(each for each in said.decode().splitlines() if "process exited" in each)
    assert line.startswith("{") is not as_text
    if as_text:
        assert " INFO exec_server.actors: process exited session=" in line


def test_a_client_cannot_forge_lines() -> None:
    """Lost: trust in the log, or the terminal that shows it."""
    record = logging.LogRecord("x", logging.INFO, "", 0, "a\nINFO forged %s", ("\x1b[2J\x9b",), None)
    record.about = {"process": "p\r\nq"}
    text, line = TextFormatter().format(record), JsonFormatter().format(record)
    assert "\n" not in text + line
    assert all(character >= " " and not "\x7f" <= character < "\xa0" for character in text)
    assert "a\\nINFO forged \\x1b[2J\\x9b process=p\\r\\nq" in text


async def test_a_reader_of_stderr_who_stops_reading(tmp_path: Path) -> None:
    """Lost: every client, to a full pipe behind stderr."""
    with program("--log-level", "debug", stderr=subprocess.PIPE) as server:
        async with session(server.url) as client:
            for number in range(5):
                await asyncio.gather(*(client.run(f"{number}-{each}" + "x" * 1000, "/bin/true") for each in range(20)))
            assert (await client.run("last", "/bin/echo", "hi")).stdout == b"hi\n"


def test_what_clients_do_cannot_drown_a_refusal() -> None:
    """H10. Stderr is slow, and somebody causes line after line. Lost: the warning that a stranger was refused."""
    reader, writer = os.pipe()
    with open(reader, "rb") as stderr:
        handler = StderrHandler(writer)
        handler.setFormatter(JsonFormatter())

        def say(level: int, text: str) -> None:
            record = logging.LogRecord("exec_server", level, "", 0, text, None, None)
            record.about = {"process": "x" * 100_000}
            handler.emit(record)

        for _ in range(2 * WAITING_LIMIT // 4000):
            say(logging.INFO, "m" * 100_000)
        say(logging.WARNING, "refused a stranger")
        say(logging.WARNING, "the last")
        found = []
        for line in stderr:
            found.append(json.loads(line))
            assert len(line) < 5000
            if found[-1]["message"] == "the last":
                break
        handler.flush()
    os.close(writer)
    assert found[-2]["message"] == "refused a stranger"
    assert len(found) < WAITING_LIMIT // 4000, "and much was lost"
