"""Resources: the output and the screen of each command, and files.

`process://ID/output?after=CURSOR` is output behind a cursor, which the answer before has told (`_meta.cursor`); without
one it begins with the oldest that is retained.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from exec_server.mcp.activity import shown_command
from exec_server.mcp.command_tools import screen_of, screen_text
from exec_server.mcp.errors import explained
from exec_server.mcp.file_tools import version_of
from exec_server.mcp.lines import text_of
from exec_server.mcp.machine import Link
from exec_server.mcp.session import McpSession
from protocol.process import ProcessReadParams

MAX_OUTPUT_BYTES = 256 << 10
"""The most output in one answer."""
MAX_FILE_BYTES = 8 << 20
NOT_FOUND = -32002
"""The code for a resource that is not there (MCP 2025-11-25, server/resources, Error Handling)."""
META_CURSOR = "exec-server/cursor"
META_MORE = "exec-server/more"
META_EVICTED = "exec-server/evictedBytes"
_PROCESS = re.compile(r"(\d{1,9})/(output|screen)")

TEMPLATES = [
    ResourceTemplate(
        name="process-output",
        title="Output of a command",
        uri_template="process://{process_id}/output{?after}",
        description="Output of a command as text; `after` is the cursor in the _meta of the answer before.",
        mime_type="text/plain",
    ),
    ResourceTemplate(
        name="process-screen",
        title="Screen of a command",
        uri_template="process://{process_id}/screen",
        description="What the terminal of a command shows.",
        mime_type="text/plain",
    ),
    ResourceTemplate(name="file", title="File", uri_template="file://{+path}", description="A file of the machine."),
]


def resources_of(session: McpSession) -> list[Resource]:
    """Output and screens of the commands that are kept."""
    link = session.machine.current
    found: list[Resource] = []
    for process_id in [] if link is None else sorted(link.commands.process_ids):
        activity = session.activities.of_process(process_id)
        if activity is None:
            continue
        for part in ("output", "screen") if activity.begin.tty else ("output",):
            found.append(
                Resource(
                    name=f"{part} of process {process_id}",
                    uri=f"process://{process_id}/{part}",
                    description=shown_command(activity.begin.command),
                    mime_type="text/plain",
                )
            )
    return found


async def read_resource(session: McpSession, uri: str) -> ReadResourceResult:
    """A resource. Raises MCPError, whose text says what is wrong with the URI."""
    parts = urlsplit(uri)
    try:
        if parts.scheme == "file":
            return await _file(session, uri)
        process = _PROCESS.fullmatch(parts.netloc + parts.path)
        if parts.scheme == "process" and process is not None:
            link = await session.link()
            if process[2] == "screen":
                text = screen_text(await screen_of(link, int(process[1])))
                return _text_result(uri, text, {})
            return await _output(link, uri, int(process[1]), _cursor(parts.query))
    except MCPError:
        raise
    except Exception as error:
        why = explained(error)
        if why is None:
            raise
        raise MCPError(NOT_FOUND, f"{uri}: {why}", {"uri": uri}) from None
    raise MCPError(
        NOT_FOUND, f"there is no resource {uri}; there are process://ID/output, process://ID/screen, file://"
    )


def check_uri(uri: str) -> None:
    """Raise MCPError unless one can subscribe to this URI."""
    parts = urlsplit(uri)
    if parts.scheme != "process" or parts.query or _PROCESS.fullmatch(parts.netloc + parts.path) is None:
        raise MCPError(
            INVALID_PARAMS, f"nobody tells of {uri}; subscribe to process://ID/output or process://ID/screen"
        )


def _cursor(query: str) -> int:
    after = parse_qs(query).get("after", ["0"])[-1]
    if not after.isdigit() or len(after) > 15:
        raise MCPError(INVALID_PARAMS, f"after={after} is no cursor: take that of an answer before")
    return int(after)


async def _output(link: Link, uri: str, process_id: int, after: int) -> ReadResourceResult:
    process = link.commands.process(process_id)
    params = ProcessReadParams(process.process_id, after_seq=after, max_bytes=MAX_OUTPUT_BYTES)
    found = await link.environment.processes.call(params)
    text = b"".join(chunk.chunk for chunk in found.chunks).decode("utf-8", "replace")
    cursor = found.next_seq - 1
    more = bool(found.chunks) and sum(len(chunk.chunk) for chunk in found.chunks) >= MAX_OUTPUT_BYTES
    return _text_result(uri, text, {META_CURSOR: cursor, META_MORE: more, META_EVICTED: found.evicted_bytes})


async def _file(session: McpSession, uri: str) -> ReadResourceResult:
    link = await session.link()
    path = await link.paths.of(uri)
    version = await version_of(link, path)
    if version.size > MAX_FILE_BYTES:
        raise MCPError(INVALID_PARAMS, f"{uri} has {version.size} bytes, more than {MAX_FILE_BYTES}: use read_file")
    data = await link.files.read(path, sandbox=link.paths.sandbox)
    text = text_of(data)
    if text is not None:
        return _text_result(uri, text, {})
    blob = base64.b64encode(data).decode()
    contents = BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)
    return ReadResourceResult(contents=[contents])


def _text_result(uri: str, text: str, meta: dict[str, Any]) -> ReadResourceResult:
    contents = TextResourceContents(uri=uri, mime_type="text/plain", text=text, _meta=meta or None)
    return ReadResourceResult(contents=[contents])
