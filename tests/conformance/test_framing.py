"""Envelope and framing errors: every row of docs/protocol.md, "Messages", each with its exact input."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.conformance.dialogue import ANY, Dialogue
from tests.conformance.encodings import JSON, in_messagepack
from tests.conformance.helpers import json_only
from tests.conformance.wires import InProcess

pytestmark = pytest.mark.anyio

TERMINATE = '"method":"process/terminate","params":{"processId":"x"}'
NOT_RUNNING = {"running": False}
PREFIX = {
    "websocket": "failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:",
    "stdio": "failed to parse JSON-RPC message from exec-server stdio: ",
}

ANSWERED: dict[str, tuple[str, Any]] = {
    "jsonrpc of any value": (f'{{"jsonrpc":"2.0","id":1,{TERMINATE}}}', 1),
    "jsonrpc that is no string": (f'{{"jsonrpc":[2],"id":1,{TERMINATE}}}', 1),
    "unknown member": (f'{{"foo":{{"bar":1}},"id":1,{TERMINATE}}}', 1),
    "id is a string": (f'{{"id":"abc",{TERMINATE}}}', "abc"),
    "id is the empty string": (f'{{"id":"",{TERMINATE}}}', ""),
    "id is negative": (f'{{"id":-7,{TERMINATE}}}', -7),
    "id is the largest": (f'{{"id":9223372036854775807,{TERMINATE}}}', 2**63 - 1),
    "id is the smallest": (f'{{"id":-9223372036854775808,{TERMINATE}}}', -(2**63)),
    "trace is null": (f'{{"trace":null,"id":1,{TERMINATE}}}', 1),
    "trace is an object": (f'{{"trace":{{"traceparent":"00-0-0-01"}},"id":1,{TERMINATE}}}', 1),
    "members in any order": ('{"params":{"processId":"x"},"method":"process/terminate","id":1}', 1),
    "a method wins over a result": (f'{{"result":1,"id":1,{TERMINATE}}}', 1),
    "unknown param": ('{"id":1,"method":"process/terminate","params":{"processId":"x","zzz":1}}', 1),
    "NUL in a string": ('{"id":1,"method":"process/terminate","params":{"processId":"a\\u0000b"}}', 1),
    "a surrogate pair": ('{"id":1,"method":"process/terminate","params":{"processId":"\\ud83d\\ude00"}}', 1),
    "white space around": (f'  {{ "id" : 1 , {TERMINATE} }}\t', 1),
    "nesting of 127": (f'{{"foo":{"[" * 126}{"]" * 126},"id":1,{TERMINATE}}}', 1),
}

UNREADABLE: dict[str, str] = {
    "no JSON": "{bad",
    "half a message": '{"id":1,"method":"process/term',
    "something behind it": f'{{"id":13,{TERMINATE}}} xx',
    "a number": "1",
    "a string": '"x"',
    "null": "null",
    "true": "true",
    "an empty object": "{}",
    "an id alone": '{"id":5}',
    "params without a method": '{"id":5,"params":{}}',
    "a batch": f'[{{"id":20,{TERMINATE}}},{{"id":21,{TERMINATE}}}]',
    "an empty batch": "[]",
    "a batch with all kinds in it": f'[{{"id":20,{TERMINATE}}},{{"method":"initialized"}},{{"id":9,"result":1}},5]',
    "id is null": f'{{"id":null,{TERMINATE}}}',
    "id is a fraction": f'{{"id":1.5,{TERMINATE}}}',
    "id with an exponent": f'{{"id":1e3,{TERMINATE}}}',
    "id is too large": f'{{"id":9223372036854775808,{TERMINATE}}}',
    "id is too small": f'{{"id":-9223372036854775809,{TERMINATE}}}',
    "id is true": f'{{"id":true,{TERMINATE}}}',
    "id is an object": f'{{"id":{{}},{TERMINATE}}}',
    "id is an array": f'{{"id":[1],{TERMINATE}}}',
    "a notification with the id null": '{"id":null,"method":"initialized"}',
    "method is a number": '{"id":1,"method":5}',
    "method is null": '{"id":1,"method":null}',
    "trace is a string": f'{{"trace":"x","id":11,{TERMINATE}}}',
    "error is a string": '{"id":1,"error":"x"}',
    "a key twice": f'{{"id":1,"id":2,{TERMINATE}}}',
    "a key twice in params": '{"id":1,"method":"process/terminate","params":{"processId":"x","processId":"y"}}',
    "a key twice far below": '{"id":1,"method":"process/terminate","params":{"processId":"x","a":[{"c":1,"c":2}]}}',
    "a key twice, once escaped": '{"id":1,"method":"process/read","params":{"processId":"x","\\u0070rocessId":"y"}}',
    "half a surrogate pair": '{"id":1,"method":"process/terminate","params":{"processId":"\\ud800"}}',
    "nesting of 128": f'{{"foo":{"[" * 127}{"]" * 127},"id":1,{TERMINATE}}}',
    "a byte order mark": f'\ufeff{{"id":1,{TERMINATE}}}',
}

BAD_PARAMS: dict[str, tuple[str, str]] = {
    # request without id, and how the text begins where it is not the JSON library's own
    "absent": ('"method":"process/terminate"', "invalid type: null, expected struct"),
    "null": ('"method":"process/terminate","params":null', "invalid type: null, expected struct"),
    "a string": ('"method":"process/terminate","params":"x"', ""),
    "an empty array": ('"method":"process/terminate","params":[]', ""),
    "a member is missing": ('"method":"process/terminate","params":{}', "missing field `processId`"),
    "snake case": ('"method":"process/terminate","params":{"process_id":"x"}', "missing field `processId`"),
    "a number for a string": ('"method":"process/terminate","params":{"processId":5}', ""),
    "null for a string": ('"method":"process/terminate","params":{"processId":null}', ""),
    "a string for a number": ('"method":"process/read","params":{"processId":"x","waitMs":"1"}', ""),
    "a negative number": ('"method":"process/read","params":{"processId":"x","afterSeq":-1}', ""),
    "a float": ('"method":"process/read","params":{"processId":"x","maxBytes":1.5}', ""),
    "a float that is whole": ('"method":"process/read","params":{"processId":"x","waitMs":1.0}', ""),
    "a number of more than 64 bits": (
        '"method":"process/read","params":{"processId":"x","waitMs":18446744073709551616}',
        "",
    ),
    "null for a plain boolean": (
        '"method":"process/start","params":{"processId":"x","argv":["true"],"cwd":"file:///","env":{},"tty":false,"pipeStdin":null}',
        "",
    ),
    "no base64": ('"method":"process/write","params":{"processId":"x","chunk":"@@","writeId":"1"}', ""),
    "base64 without padding": ('"method":"process/write","params":{"processId":"x","chunk":"aGk","writeId":"1"}', ""),
    "base64 with a space": ('"method":"process/write","params":{"processId":"x","chunk":"aG k=","writeId":"1"}', ""),
    "base64 for URLs": ('"method":"process/write","params":{"processId":"x","chunk":"-_-_","writeId":"1"}', ""),
    "an empty writeId": (
        '"method":"process/write","params":{"processId":"x","chunk":"aGk=","writeId":""}',
        "writeId must not be empty",
    ),
    "something for a method that takes nothing": ('"method":"environment/status","params":[]', ""),
}

VIOLATIONS: dict[str, str] = {
    "an unknown notification": '{"method":"foo/bar"}',
    "a request's method without an id": f"{{{TERMINATE}}}",
    "initialize without an id": '{"method":"initialize","params":{"clientName":"x"}}',
    "a notification that only a server sends": '{"method":"process/output","params":{}}',
    "a policy decision nobody asked for": '{"method":"network/policyDecision","params":{"requestId":"r"}}',
    "a result": '{"id":1,"result":{}}',
    "an error": '{"id":1,"error":{"code":1,"message":"x"}}',
}


@pytest.mark.parametrize("row", ANSWERED)
async def test_what_is_answered(talk: Dialogue, row: str) -> None:
    """Else a client that is free to write this waits for ever, or cannot find its answer."""
    frame, request_id = ANSWERED[row]
    await talk.initialize()
    await talk.say(frame)
    assert (await talk.answer(request_id))["result"] == NOT_RUNNING
    await talk.is_alive()


@json_only
async def test_what_is_unreadable(talk: Dialogue, wire_name: str) -> None:
    """Each is answered once, with the id -1, and the connection goes on; before `initialize` as well."""
    for row, frame in UNREADABLE.items():
        await talk.send(frame)
        error = await talk.expect_error(await talk.answer(-1), -32600, PREFIX[wire_name])
        assert error["message"].removeprefix(PREFIX[wire_name]).partition(": ")[2 if wire_name == "websocket" else 0], (
            row
        )
    await talk.initialize()
    for frame in UNREADABLE.values():
        await talk.send(frame)
        await talk.expect_error(await talk.answer(-1), -32600, PREFIX[wire_name])
    await talk.is_alive()
    assert talk.unexpected() == []


UNREADABLE_MAPS = {
    row: message
    for row, text in UNREADABLE.items()
    if (message := in_messagepack(text)) is not None and text.startswith("{")
} | {
    "an extension type": b"\x83\xa2id\x01\xa6method\xa1m\xa6params\x81\xa1a\xd4\x05\x00",
    "a key twice": b"\x83\xa2id\x01\xa2id\x02\xa6method\xa1m",
    "a key that is no string": b"\x83\xa2id\x01\x05\x02\xa6method\xa1m",
    "a string that is not UTF-8": b"\x83\xa2id\x01\xa6method\xa1m\xa6params\x81\xa1a\xa1\xff",
}
"""Whole maps all of them: on stdio what is none ends the input."""


@pytest.mark.parametrize("encoding", ["msgpack"], indirect=True)
async def test_what_is_unreadable_in_messagepack(talk: Dialogue, wire_name: str) -> None:
    """As in JSON."""
    assert len(UNREADABLE_MAPS) > 15
    for message in UNREADABLE_MAPS.values():
        await talk.send(message)
        await talk.expect_error(await talk.answer(-1), -32600, PREFIX[wire_name])
    await talk.initialize()
    await talk.is_alive()
    assert talk.unexpected() == []


@json_only
async def test_two_messages_in_one_frame(server: InProcess) -> None:
    """Neither is carried out: who puts two into one frame must learn of it. On stdio two lines are two messages."""
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        await talk.initialize()
        await talk.send(f'{{"id":13,{TERMINATE}}}\n{{"id":14,{TERMINATE}}}')
        await talk.expect_error(await talk.answer(-1), -32600, PREFIX["websocket"])
        await talk.is_alive()
        assert talk.unexpected() == []
    async with server.stdio() as line_wire:
        talk = Dialogue(line_wire)
        await talk.initialize()
        await talk.send(f'{{"id":13,{TERMINATE}}}\r\n\r\n  \n\n{{"id":14,{TERMINATE}}}')
        await talk.answer(13)
        await talk.answer(14)


@json_only
@pytest.mark.parametrize("frame", [b"", b"   ", b"\xff\xfe{}", b'{"id":1,"method":"\xff"}'])
async def test_binary_and_empty_frames(server: InProcess, frame: bytes) -> None:
    """A binary message that is no text is a parse error like any other; a good one is as good as text."""
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        await talk.initialize()
        await talk.send(frame)
        await talk.expect_error(await talk.answer(-1), -32600, PREFIX["websocket"])
        await talk.send(f'{{"id":12,{TERMINATE}}}'.encode())
        assert (await talk.answer(12))["result"] == NOT_RUNNING


@pytest.mark.parametrize("row", BAD_PARAMS)
async def test_bad_params(talk: Dialogue, row: str) -> None:
    """The request's own id, -32602, and this before any state is checked: so a client finds its mistake."""
    request, text = BAD_PARAMS[row]
    if talk.encoding is not JSON and in_messagepack(f"{{{request}}}") is None:
        pytest.skip("MessagePack has no such number")
    await talk.say(f'{{"id":"early",{request}}}')
    await talk.expect_error(await talk.answer("early"), -32602, text)
    await talk.initialize()
    await talk.say(f'{{"id":7,{request}}}')
    await talk.expect_error(await talk.answer(7), -32602, text)
    await talk.is_alive()


@pytest.mark.parametrize("method", ["foo/bar", "", "process/output", "initialized", "rpc.discover"])
async def test_unknown_method(talk: Dialogue, method: str) -> None:
    """-32601 in every state: clients find out by it what a server can do."""
    text = f"exec-server stub does not implement `{method}` yet"
    for request_id in (1, 2, 3):
        await talk.say(f'{{"id":{request_id},"method":"{method}","params":{{}}}}')
        await talk.expect_error(await talk.answer(request_id), -32601, text)
        if request_id == 1:
            await talk.result("initialize", clientName="x", resumeSessionId=None)
        else:
            await talk.send({"method": "initialized"})


@pytest.mark.parametrize("row", VIOLATIONS)
async def test_what_ends_the_connection(server: InProcess, row: str) -> None:
    """A client out of step is not guessed at. It is told with Close 1008, and may resume its session."""
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        session = (await talk.initialize(resumeSessionId=None))["sessionId"]
        await talk.result("process/start", processId="k", argv=["sleep", "50"], cwd="file:///", env={}, tty=False)
        await talk.say(VIOLATIONS[row])
        await talk.send({"id": 99, "method": "environment/status"})
        assert await talk.expect_closed() == 1008
        assert talk.unexpected() == []
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        await talk.initialize(resumeSessionId=session)
        assert await talk.result("process/terminate", processId="k") == {"running": True}


@pytest.mark.parametrize("row", VIOLATIONS)
async def test_what_ends_a_stdio_connection(server: InProcess, row: str) -> None:
    """The same on stdio, where nothing can be resumed: the output ends."""
    async with server.stdio() as wire:
        talk = Dialogue(wire)
        await talk.initialize()
        await talk.say(VIOLATIONS[row])
        await talk.expect_closed()


async def test_initialized_before_initialize(talk: Dialogue) -> None:
    """Ends the connection, too."""
    await talk.send({"method": "initialized"})
    await talk.expect_closed()


@pytest.mark.parametrize("again", ['{"method":"initialized"}', '{"method":"initialized","params":"x"}'])
async def test_initialized_again(talk: Dialogue, again: str) -> None:
    """Is ignored, whatever its params."""
    await talk.initialize()
    await talk.say(again)
    await talk.is_alive()
    assert talk.unexpected() == []


async def test_the_same_id_twice(talk: Dialogue) -> None:
    """Each request in flight gets its answer, though they cannot be told apart."""
    await talk.initialize()
    for _ in range(3):
        await talk.say(f'{{"id":3,{TERMINATE}}}')
    for _ in range(3):
        await talk.answer(3)
    await talk.is_alive()


@json_only
async def test_what_is_sent(talk: Dialogue) -> None:
    """Members in upstream's order and no `jsonrpc`: some clients look for texts."""
    await talk.initialize()
    await talk.send('{"jsonrpc":"2.0","id":"q","method":"foo"}')
    await talk.answer("q")
    await talk.result("process/start", processId="p", argv=["/bin/echo", "hi"], cwd="file:///", env={}, tty=False)
    await talk.expect({"method": "process/closed", "params": ANY})
    kinds = [tuple(json.loads(raw)) for raw in talk.raw]
    assert kinds == [("id", "result"), ("error", "id"), ("id", "result"), *[("method", "params")] * 3]
    output = next(each for each in talk.received if each.get("method") == "process/output")
    assert base64.b64decode(output["params"]["chunk"]) == b"hi\n"
