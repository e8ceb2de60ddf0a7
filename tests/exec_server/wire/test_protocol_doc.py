"""docs/protocol.md says what the server does: its examples and README's, its lists of members, kinds and extensions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator

from protocol.environment import ConfigLayer, ConfigLayers
from protocol.errors import HttpErrorKind
from protocol.extensions import in_force
from protocol.filesystem import FILE_KINDS, DirectoryEntry, WalkEntry, WalkError, WalkOptions
from protocol.http import HttpHeader, HttpRequestHeader
from protocol.json_schema import NOTIFICATIONS, definition, message_schema
from protocol.methods import METHODS
from protocol.process import EnvPolicy, ProcessEntry, ResourceLimits, ScreenCursor, StreamBytes
from protocol.session import Initialized, ServerInfo
from tests.support.documented import Conversation, Line, conversations, packed, played
from tests.support.program import ROOT, Program
from tests.support.web import web_server

DOCUMENT = ROOT / "docs" / "protocol.md"
TEXT = DOCUMENT.read_text()
SCHEMA = message_schema()
EXAMPLES = [
    pytest.param(lines, id=f"{path.name}-{number}")
    for path in (ROOT / "README.md", DOCUMENT)
    for number, lines in enumerate(conversations(path), 1)
]
NOTIFIED: dict[str, type[msgspec.Struct]] = {kind.METHOD: kind for kind in NOTIFICATIONS}


# -- examples -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("lines", EXAMPLES)
async def test_examples(server: Program, lines: list[Line]) -> None:
    """Examples are copied before anything is read: they must work to the letter, and their messages fit the schema."""
    async with web_server() as web:
        check_schema(await played(server.url, lines, WEB=web.base))


@pytest.mark.anyio
@pytest.mark.parametrize("lines", EXAMPLES[2:])
async def test_examples_in_messagepack(server: Program, lines: list[Line]) -> None:
    """Both encodings say the same; only what is no JSON (the first example) has no counterpart."""
    async with web_server() as web:
        await played(server.url, lines, msgpack=True, WEB=web.base)


def test_the_example_of_both_encodings() -> None:
    match = re.search(r"<!-- msgpack -->\n```\n(.*)\n(.*)\n```", TEXT)
    assert match is not None
    assert packed(match[1]) == bytes.fromhex(match[2])


def check_schema(conversation: Conversation) -> None:
    requests: dict[tuple[str, Any], dict[str, Any]] = {}
    for client, text in conversation.sent:
        message = json.loads(text)
        if "id" in message:
            requests[client, message["id"]] = message
    for client, text in conversation.received:
        message = json.loads(text)
        assert_valid(message, "ServerMessage")
        request = requests.get((client, message.get("id")))
        if request is not None and "result" in message:
            assert_valid(request, definition(request["method"], "Request"))
            assert_valid(message, definition(request["method"], "Response"))


def assert_valid(message: dict[str, Any], name: str) -> None:
    Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}).validate(message)


LINE = Line("", "<", '{"id":1,"result":{"status":"ready"}}')
HELLO = conversations(ROOT / "README.md")[0][:3]
STATUS = Line("", ">", '{"id":1,"method":"environment/status"}')


@pytest.mark.anyio
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*HELLO, STATUS, LINE._replace(text=LINE.text.replace("ready", "busy"))], id="another-value"),
        pytest.param([*HELLO, STATUS, LINE._replace(text='{"id":1,"result":{}}')], id="a-member-too-few"),
        pytest.param([*HELLO, STATUS], id="an-answer-not-shown"),
        pytest.param([*HELLO, Line("", ">", '{"method":"bye"}'), LINE], id="a-close-not-shown"),
        pytest.param([Line("", ">", "[]"), Line("", "<", '{"error":{"code":-32600,…},"id":1}')], id="another-id"),
    ],
)
async def test_a_wrong_example_is_found(server: Program, lines: list[Line]) -> None:
    """A comparison that lets anything pass proves nothing."""
    with pytest.raises(AssertionError):
        await played(server.url, lines)


# -- completeness -------------------------------------------------------------------------------------------------


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert match is not None, f"no section {title}"
    return match[1]


def in_code(text: str) -> set[str]:
    """All words in `code` of a text, examples left out."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {word for code in re.findall(r"`([^`]+)`", prose) for word in re.findall(r"[\w/]+", code)}


def members(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("name", METHODS)
def test_every_member_of_a_method_is_described(name: str) -> None:
    """A member that nobody can read about is of use to nobody."""
    method, text = METHODS[name], section(name)
    described = in_code(text)
    if "as for `environment/info`" in text or "is that of [process/write]" in text:
        described |= in_code(section("environment/info")) | in_code(section("process/write"))
    assert members(method) <= described
    assert members(method.RESULT) <= described


@pytest.mark.parametrize("name", NOTIFIED)
def test_every_member_of_a_notification_is_described(name: str) -> None:
    assert members(NOTIFIED[name]) <= in_code(section(name))


def test_members_of_members_are_described() -> None:
    assert members(ProcessEntry) <= in_code(section("process/list"))
    assert members(StreamBytes) <= in_code(section("process/snapshot"))
    assert members(ServerInfo) <= in_code(section("initialize"))
    assert members(ResourceLimits) | members(EnvPolicy) <= in_code(section("process/start"))
    assert members(ConfigLayer) | members(ConfigLayers) <= in_code(section("environmentConfig/read"))
    assert members(HttpRequestHeader) | members(HttpHeader) <= in_code(section("http/request"))
    assert members(WalkOptions) | members(WalkEntry) | members(WalkError) <= in_code(section("fs/walk"))
    assert members(DirectoryEntry) <= in_code(section("fs/readDirectory"))
    assert members(ScreenCursor) <= in_code(section("process/screen"))


def test_every_method_and_notification_is_in_an_example() -> None:
    shown = {
        method
        for lines in conversations(DOCUMENT)
        for line in lines
        for method in re.findall(r'"method":"([\w/]+)"', line.text)
    }
    assert {*METHODS, *NOTIFIED, Initialized.METHOD} <= shown


def test_every_kind_of_error_is_described() -> None:
    """Programs decide on kinds, so all must be known; and none must be described that is never sent."""
    sources = [path for room in ("protocol", "actors", "transport") for path in (ROOT / room).rglob("*.py")]
    code = "".join(path.read_text() for path in sources)
    sent = {*re.findall(r'"kind": "(\w+)"', code), *re.findall(r'SpawnError\(\s*"(\w+)"', code)}
    sent |= {kind for kind, _ in FILE_KINDS.values()} | {"other"}  # of an OSError about a file
    sent |= {"spawnNotFound", "spawnPermissionDenied", "resourceExhausted"}  # of an errno
    sent |= set(get_args(HttpErrorKind))
    described = set(re.findall(r"^\| `(\w+)` \| -32\d+ \|", section("Errors"), re.MULTILINE))
    assert described == sent


def test_every_extension_is_described() -> None:
    table = section("How the wire may grow")
    rows = re.findall(r"^ +\| (`.*?) \|", table, re.MULTILINE)
    everything = in_force(screen=True, record=True)
    assert set(everything) <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        page, _, anchor = target.partition("#")
        assert not page or (Path(DOCUMENT.parent) / page).exists(), target
        assert page or anchor in anchors, target
