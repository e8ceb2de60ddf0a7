"""One server for every generation of clients: the seed's two states (docs/wire-spec.md, "Generations") and the
current one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.dialogue import ANY, Dialogue, text_of
from tests.conformance.encodings import JSON, Encoding
from tests.conformance.helpers import PATH, closed, command, death_of, exited, printed, until_forgotten
from tests.conformance.wires import InProcess, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def encoding() -> Encoding:
    """The seed's clients know nothing else: with a subprotocol a client is current."""
    return JSON


def seed_command(process_id: str, *argv: str, tty: bool = False, cwd: str = "/", **params: Any) -> dict[str, Any]:
    """Params of a start as the seed's clients send them: a native cwd, no member that came later."""
    return {"processId": process_id, "argv": list(argv), "cwd": cwd, "env": {"PATH": PATH}, "tty": tty} | params


async def seed_handshake(talk: Dialogue) -> dict[str, Any]:
    await talk.send({"id": 1, "method": "initialize", "params": {"clientName": "seed"}})
    answer = await talk.answer(1)
    await talk.send({"method": "initialized", "params": {}})
    result: dict[str, Any] = answer["result"]
    return result


async def become_seed_era(talk: Dialogue) -> None:
    """After the handshake and one start there is no doubt left about the client."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("first", "true"))
    await closed(talk, "first")


async def test_seed_first_state(any_talk: Dialogue, tmp_path: Path) -> None:
    """A whole conversation of the first seed client: each answer has the members that it reads."""
    talk = any_talk
    assert (await seed_handshake(talk))["protocolVersion"] == "exec-server.v0"
    started = await talk.result("process/start", **seed_command("p", "cat", tty=True, cwd=str(tmp_path), arg0=None))
    assert started["processId"] == "p"
    assert (await talk.result("process/write", processId="p", chunk="aGkK"))["accepted"] is True
    assert (await printed(talk, "p", 8)).startswith(b"hi\r\nhi\r\n")
    read = await talk.result("process/read", processId="p", afterSeq=0, maxBytes=1_000_000, waitMs=0)
    assert text_of(read["chunks"]).startswith(b"hi\r\nhi\r\n")
    assert {chunk["stream"] for chunk in read["chunks"]} == {"pty"}
    assert (read["exited"], read["exitCode"]) == (False, None)
    after = read["nextSeq"] - 1
    assert (await talk.result("process/read", processId="p", afterSeq=after))["chunks"] == []
    assert await talk.result("process/terminate", processId="p") == {"running": True}
    assert (await exited(talk, "p"))["exitCode"] == 137
    assert await talk.result("process/terminate", processId="p") == {"running": False}
    assert await talk.result("process/terminate", processId="nobody") == {"running": False}


async def test_seed_errors(talk: Dialogue, tmp_path: Path) -> None:
    """Every error of the seed, with its code and text: its client matches on them."""
    await become_seed_era(talk)
    refused = [
        ("process/start", seed_command("first", "true"), -32600, "process first already exists"),
        ("process/start", seed_command("e"), -32602, "argv must not be empty"),
        ("process/start", seed_command("e", "/nonexistent/program"), -32603, "No such file or directory"),
        ("process/start", seed_command("e", "true", cwd=str(tmp_path / "no")), -32603, "No such file or directory"),
        ("process/read", {"processId": "nobody"}, -32600, "unknown process id nobody"),
        ("process/write", {"processId": "nobody", "chunk": "aGk="}, -32600, "unknown process id nobody"),
        ("process/write", {"processId": "first", "chunk": "aGk="}, -32600, "stdin is closed for process first"),
        ("process/write", {"processId": "first", "chunk": "@@"}, -32602, ""),
        ("process/resizeTerminal", {"processId": "first"}, -32600, "unknown method: process/resizeTerminal"),
        ("initialize", {"clientName": "again"}, -32600, "initialize may only be sent once per connection"),
    ]
    for method, params, code, message in refused:
        await talk.expect_error(await talk.call(method, **params), code, message)
    await talk.result("process/start", **seed_command("e", "true"))
    await closed(talk, "e")


async def test_seed_write_to_a_child_without_stdin(talk: Dialogue) -> None:
    """An error, while a current client gets a status."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("p", "sleep", "1000"))
    answer = await talk.call("process/write", processId="p", chunk="aGk=")
    await talk.expect_error(answer, -32600, "stdin is closed for process p")


async def test_seed_read_returns_when_exited(talk: Dialogue) -> None:
    """A seed client polls until `exited`; one that waits longer would hang behind a background job."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("p", "/bin/sh", "-c", "sleep 1000 & exit 4"))
    await exited(talk, "p")
    read = await talk.result("process/read", processId="p", afterSeq=99, waitMs=600_000)
    assert (read["exited"], read["exitCode"], read["chunks"]) == (True, 4, [])


async def test_current_read_waits_for_closed(talk: Dialogue) -> None:
    """The same poll of a current client goes on: it wants to know of the end of the output."""
    await talk.initialize(resumeSessionId=None)
    await talk.result("process/start", **command("p", "/bin/sh", "-c", "read x </dev/null; sleep 1 & exit 4"))
    await exited(talk, "p")
    read = await talk.result("process/read", processId="p", afterSeq=1, waitMs=600_000)
    assert (read["exited"], read["closed"]) == (True, True)


async def test_seed_notifications(talk: Dialogue) -> None:
    """Members of the first state are there; `seq` and `closed`, which came with the second, as well."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("p", "/bin/sh", "-c", "echo hi; exit 3"))
    await talk.expect({"method": "process/output", "params": {"processId": "p", "stream": "stdout", "chunk": "aGkK"}})
    await talk.expect({"method": "process/exited", "params": {"processId": "p", "exitCode": 3}})
    await talk.expect({"method": "process/closed", "params": {"processId": "p", "seq": ANY}})


async def test_seed_second_state(talk: Dialogue) -> None:
    """The second state reads `status`, `closed` and `failure`, and initializes as the first does."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("p", "cat", tty=True))
    assert (await talk.result("process/write", processId="p", chunk="aGkK"))["status"] == "accepted"
    await printed(talk, "p", 4)
    read = await talk.result("process/read", processId="p")
    assert (read["closed"], read["failure"]) == (False, None)
    refused = await talk.call("process/write", processId="nobody", chunk="aGkK")
    await talk.expect_error(refused, -32600, "unknown process id nobody")
    await talk.result("process/terminate", processId="p")
    end = await talk.expect({"method": "process/exited", "params": {"processId": "p", "exitCode": 137, "seq": ANY}})
    await talk.expect({"method": "process/closed", "params": {"processId": "p", "seq": end["params"]["seq"] + 1}})


async def test_seed_session_ends_with_its_connection(any_talk: Dialogue) -> None:
    """A seed client counts on it: what it started is killed when it goes."""
    talk = any_talk
    await seed_handshake(talk)
    await talk.result(
        "process/start", **seed_command("p", "/bin/sh", "-c", "trap '' TERM HUP; echo $$; while :; do sleep 99; done")
    )
    death = death_of(await printed(talk, "p", 2))
    await talk.close()
    await death.come()


async def test_seed_session_cannot_be_resumed(server: InProcess) -> None:
    """It is gone, not detached."""
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        session = (await seed_handshake(talk))["sessionId"]
        await talk.result("process/start", **seed_command("p", "true"))
    async with server.websocket() as wire:
        answer = await Dialogue(wire).call("initialize", clientName="x", resumeSessionId=session)
        assert answer["error"]["message"] == f"unknown session id {session}"


async def test_stdio_session_ends_with_the_input(server: InProcess) -> None:
    """Nobody can come back to a pair of pipes, whatever the generation."""
    async with server.stdio() as wire:
        talk = Dialogue(wire)
        session = (await talk.initialize(resumeSessionId=None))["sessionId"]
        await talk.result("process/start", **command("p", "/bin/sh", "-c", "echo $$; exec sleep 1000"))
        death = death_of(await printed(talk, "p", 2))
        await talk.close()
        await death.come()
        await talk.expect_closed()
    async with server.websocket() as socket:
        answer = await Dialogue(socket).call("initialize", clientName="x", resumeSessionId=session)
        assert answer["error"]["message"] == f"unknown session id {session}"


@pytest.mark.parametrize(
    "params, cwd",
    [({"resumeSessionId": None}, "/"), ({"resumeSessionId": None}, "file:///"), ({}, "file:///")],
    ids=["null resumeSessionId, native cwd", "null resumeSessionId, URI", "no resumeSessionId, URI"],
)
async def test_current_client(talk: Dialogue, params: dict[str, Any], cwd: str) -> None:
    """A `resumeSessionId` member or a URI makes a client current: statuses instead of errors."""
    await talk.initialize(**params)
    await talk.result("process/start", **command("p", "true", cwd=cwd))
    await closed(talk, "p")
    written = await talk.result("process/write", processId="p", chunk="aGk=", writeId="1")
    assert (written["status"], written["accepted"]) == ("stdinClosed", False)
    written = await talk.result("process/write", processId="nobody", chunk="aGk=", writeId="1")
    assert (written["status"], written["accepted"]) == ("unknownProcess", False)
    await talk.expect_error(await talk.call("foo"), -32601, "exec-server stub does not implement `foo` yet")


async def test_seed_era_is_decided_by_the_first_start(talk: Dialogue) -> None:
    """Before it nobody can tell: a client is answered as a current one. A later start changes nothing."""
    await seed_handshake(talk)
    await talk.expect_error(await talk.call("foo"), -32601)
    await talk.result("process/start", **seed_command("p", "true"))
    await talk.expect_error(await talk.call("foo"), -32600, "unknown method: foo")
    await talk.result("process/start", **command("q", "true"))
    await talk.expect_error(await talk.call("foo"), -32600, "unknown method: foo")


async def test_seed_client_survives_a_malformed_message(talk: Dialogue) -> None:
    """It is told with id -1, where the seed's own server hung up."""
    await become_seed_era(talk)
    await talk.send("{bad")
    await talk.expect_error(await talk.answer(-1), -32600, "failed to parse")
    await talk.is_alive()


async def test_seed_record_outlives_the_exit() -> None:
    """Retention counts from `closed`, not from the exit, so late output is not lost."""
    async with serving(process_retention=0.2) as server, server.websocket() as wire:
        talk = Dialogue(wire)
        await seed_handshake(talk)
        await talk.result("process/start", **seed_command("p", "/bin/sh", "-c", "(sleep 1; echo late) & exit 0"))
        await exited(talk, "p")
        assert await printed(talk, "p") == b"late\n"
        await closed(talk, "p")
        await until_forgotten(talk, "p")


async def test_seed_exit_by_signal(talk: Dialogue) -> None:
    """128+n, as the current protocol has it; the seed's oldest pipe code said -1."""
    await seed_handshake(talk)
    await talk.result("process/start", **seed_command("p", "/bin/sh", "-c", "kill -TERM $$"))
    assert (await exited(talk, "p"))["exitCode"] == 143


async def test_clients_of_all_generations_at_once(server: InProcess) -> None:
    """What one connection speaks is nothing to another one."""
    async with server.websocket() as old, server.websocket() as new:
        seed, current = Dialogue(old), Dialogue(new)
        await become_seed_era(seed)
        await current.initialize(resumeSessionId=None)
        answers = await asyncio.gather(seed.call("foo"), current.call("foo"))
        assert [answer["error"]["code"] for answer in answers] == [-32600, -32601]
