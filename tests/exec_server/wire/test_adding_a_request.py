"""Adding a request, as docs/architecture.md does it: its code is put where the page says, and works."""

from __future__ import annotations

import asyncio
import re
import sys
import textwrap
from types import ModuleType
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

import actors.process.requests
import exec_server.client.process
import exec_server.client.sync
import protocol.process
from actors.process.requests import Requests
from exec_server.client.connect import connect_websocket
from protocol.client_codec import JSON_CLIENT, MSGPACK_CLIENT
from protocol.codec import JSON, MSGPACK
from protocol.envelope import Request, Response
from protocol.errors import InvalidRequest, UnknownProcess
from protocol.extensions import in_force
from protocol.json_schema import definition, message_schema
from protocol.methods import METHODS
from protocol.requests import Owner, table_of
from tests.support.embedded import embedded
from tests.support.program import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text()
SECTION = TEXT.partition("\n## Adding a request\n")[2].partition("\n## ")[0]
WIRE, ANSWER, CALL, SYNC = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


ENDS = [pytest.param(JSON, JSON_CLIENT, id="json"), pytest.param(MSGPACK, MSGPACK_CLIENT, id="msgpack")]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module in which the request is defined, once; the request is known everywhere after that."""
    module = ModuleType("usage")
    vars(module).update({name: value for name, value in vars(protocol.process).items() if name[:2] != "__"})
    monkeypatch.setitem(sys.modules, "usage", module)
    exec(compile(WIRE, "docs/architecture.md", "exec"), vars(module))
    table = table_of(module)
    assert list(table) == ["process/usage"]
    monkeypatch.setitem(METHODS, "process/usage", table["process/usage"])
    return module


def placed(code: str, where: ModuleType, wire: ModuleType) -> Any:
    """The one function of a block, as if it stood in this module."""
    from pathlib import Path

    namespace = {**vars(where), **vars(wire), "Path": Path, "InvalidRequest": InvalidRequest}
    exec(compile(textwrap.dedent(code), "docs/architecture.md", "exec"), namespace)
    return namespace["_usage" if "def _usage" in code else "usage"]


@pytest.fixture
def everywhere(wire: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The request with its handler and its calls."""
    monkeypatch.setitem(Requests._methods, "process/usage", placed(ANSWER, actors.process.requests, wire))
    for code, where in ((CALL, exec_server.client.process), (SYNC, exec_server.client.sync)):
        monkeypatch.setattr(where.Process, "usage", placed(code, where, wire), raising=False)
    return wire


@pytest.mark.parametrize(
    ("server", "client"), [(JSON, JSON_CLIENT), (MSGPACK, MSGPACK_CLIENT)], ids=["json", "msgpack"]
)
@pytest.mark.parametrize("size", [0, 1, 5000, 2_000_000])
def test_it_is_known_to_both_ends_of_either_encoding(wire: Any, server: Any, client: Any, size: int) -> None:
    """Lost: a request that is added in one place; its author hunts for the others."""
    params = wire.ProcessUsageParams("p", "s")
    request = server.decode(client.encode_request(1, params))
    assert isinstance(request, Request)
    assert server.decode_params(METHODS[request.method], request.params) == params
    result = wire.ProcessUsageResult(7, bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    whole = server.encode_result(1, result)
    pieces = list(server.encode_result_pieces(1, result))
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) <= 1 << 20
    assert len(whole) <= server.encoded_size_hint(result) <= 2 * len(whole) + 1024
    answer = client.decode(whole)
    assert isinstance(answer, Response)
    assert client.decode_result(params.RESULT, answer.result) == result


def test_what_follows_from_its_class(wire: Any) -> None:
    """Lost: a row of a schema, an extension or a rule that nobody thought of."""
    schema = message_schema()
    validator = Draft202012Validator(
        {"$ref": f"#/$defs/{definition('process/usage', 'Request')}", "$defs": schema["$defs"]}
    )
    assert validator.is_valid({"id": 1, "method": "process/usage", "params": {"processId": "p"}})
    assert not validator.is_valid({"id": 1, "method": "process/usage", "params": {}})
    assert "ProcessUsageResult" in schema["$defs"]
    assert "usage" in in_force(screen=False, record=False)
    params = wire.ProcessUsageParams("p")
    assert (params.OWNER, params.FAMILY, params.may_repeat, params.OBSERVABLE) == (Owner.PROCESS, "exec", True, True)
    with pytest.raises(UnknownProcess):
        params.result_without_process()
    assert wire.ProcessUsageResult(1, b"four").bulk_bytes == 4
    assert msgspec.structs.fields(wire.ProcessUsageParams)[0].encode_name == "processId"


def threads_of_another(url: str, session_id: str, process_id: str) -> int:
    """As a script without a loop asks, of a process of another session."""
    with exec_server.client.sync.connect_websocket(url) as client:
        process = client.session(session_id).attach(process_id)
        return process.usage().threads  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_a_client_calls_it_on_a_real_process(everywhere: Any) -> None:
    """Lost: the example, which is copied first."""
    async with embedded() as (_, url), connect_websocket(url) as client:
        assert "usage" in client.extensions
        process = await client.start(["sleep", "1000"])
        result = await process.usage()  # type: ignore[attr-defined]
        assert result.threads == 1
        assert b"Name:\tsleep" in result.status
        assert await asyncio.to_thread(threads_of_another, url, client.session_id, process.process_id) == 1
        await process.kill()
        await process.wait()
        with pytest.raises(InvalidRequest, match="does not run any more"):
            await process.usage()  # type: ignore[attr-defined]
        with pytest.raises(UnknownProcess):
            await client.call(everywhere.ProcessUsageParams("nobody"))
