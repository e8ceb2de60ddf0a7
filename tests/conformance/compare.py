"""What of an answer or of a process's story has to be as upstream had it."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.traces import BINARY, BINARY_BASE64

LIBRARY_TEXTS = re.compile(
    r"invalid (type|length|number|character)|unknown variant|Invalid (symbol|padding)|duplicate|recursion"
    r"|missing field `error`"
)
"""Texts of upstream's JSON library: of those only code and id count (docs/protocol.md, "Messages")."""
PID = re.compile(rb"(?m)^\d+(\r?)$")


@dataclass
class Story:
    """What was told of one process, whoever told it: a trace or our server."""

    outputs: dict[str, bytes] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    exit: dict[str, Any] | None = None

    @property
    def closed(self) -> bool:
        return "closed" in self.kinds

    def add(self, kind: str, params: dict[str, Any]) -> None:
        self.kinds.append(kind)
        if kind == "exited":
            self.exit = params
        elif kind == "output":
            stream = params["stream"]
            self.outputs[stream] = self.outputs.get(stream, b"") + chunk_bytes(params)

    def event(self, seq: int) -> str:
        """What has this seq: `output`, `exited`, `closed`; `start` for 0."""
        return "start" if seq == 0 else self.kinds[seq - 1] if seq <= len(self.kinds) else "nothing"


def chunk_bytes(chunk: dict[str, Any]) -> bytes:
    if "text" in chunk:
        text: str = chunk["text"]
        return BINARY[:1_000_000] if text == BINARY_BASE64 else text.encode()
    return base64.b64decode(chunk["chunk"])


def stories_of(notifications: list[dict[str, Any]]) -> dict[str, Story]:
    stories: dict[str, Story] = defaultdict(Story)
    for message in sorted(notifications, key=lambda each: each["params"]["seq"]):
        params = message["params"]
        stories[params["processId"]].add(message["method"].removeprefix("process/"), params)
    return stories


def same_chunks(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], limited: bool) -> bool:
    """The same bytes on each stream; where `maxBytes` stopped at one chunk, as far as both go."""
    if limited and len(ours) != len(theirs):
        return False
    for stream in {chunk["stream"] for chunk in theirs + ours}:
        expected, printed = (
            steady(b"".join(chunk_bytes(chunk) for chunk in chunks if chunk["stream"] == stream))
            for chunks in (theirs, ours)
        )
        if not (expected == printed or (limited and printed.startswith(expected))):
            return False
    return True


def compare_errors(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    if ours["code"] != theirs["code"]:
        yield "code"
        return
    if theirs.get("data", {}).get("kind") != ours.get("data", {}).get("kind") and "data" in theirs:
        yield "data.kind"
    expected: str = theirs["message"]
    if expected.startswith("failed to parse"):
        head = re.escape(expected[: expected.index("@PEER@")]) + r"127\.0\.0\.1:\d+: "
        if re.match(head, ours["message"]) is None:
            yield "message"
    elif LIBRARY_TEXTS.search(expected) is None and not ours["message"].startswith(expected):
        yield "message"


def _same_metadata(*results: dict[str, Any]) -> None:
    for result in results:
        for time in ("createdAtMs", "modifiedAtMs"):
            assert isinstance(result.pop(time), int)
        if not result["isFile"]:
            result.pop("size")


def _same_entries(*results: dict[str, Any]) -> None:
    for result in results:
        result["entries"] = sorted(
            [{name: value for name, value in entry.items() if name != "path"} for entry in result["entries"]],
            key=lambda entry: str(entry["fileName"]),
        )


FILE_RESULTS = {"fs/getMetadata": _same_metadata, "fs/readDirectory": _same_entries}
"""What of the results of both sides is taken away or put in order before they are compared."""


def compare_environments(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """Members, their types, and the values that are the same on every Linux."""
    for member, value in theirs.items():
        if member not in ours or type(ours[member]) is not type(value):
            yield f"environment.{member}"
    if theirs["platformOs"] != ours["platformOs"] or set(theirs["shell"]) != set(ours["shell"]):
        yield "environment"
    if ours["capabilities"] != theirs["capabilities"]:
        yield "environment.capabilities"
    if set(theirs["capabilities"]) - set(ours["capabilities"]):
        yield "environment.capabilities members"
    if bool(theirs["prependPathDirs"]) != bool(ours["prependPathDirs"]):
        yield "environment.prependPathDirs"


def compare_stories(theirs: Story, ours: Story) -> Iterator[str]:
    if theirs.exit is not None:
        exit = ours.exit or {}
        for member in ("exitCode", "sandboxDenied"):
            if exit.get(member) != theirs.exit[member]:
                yield member
    if theirs.closed:
        if ours.kinds[-1:] != ["closed"]:
            yield "closed"
        for stream in set(ours.outputs) - set(theirs.outputs):
            yield stream
    for stream, expected in theirs.outputs.items():
        printed = steady(ours.outputs.get(stream, b""))
        expected = steady(expected)
        if printed != expected and not (not theirs.closed and printed.startswith(expected)):
            yield stream


_UNSTEADY = (
    (PID, rb"<pid>\1"),
    (rb"SigQ:[^'\n\r]*", b"SigQ"),
    (rb"pipe:\[\d+\]", b"pipe"),
    (rb"/dev/pts/\d+", b"/dev/pts/N"),
    (rb"ppid==1\? \d+", b"ppid"),
    (rb"umask 0o\d+", b"umask"),
    (rb"'(Umask|Groups|NoNewPrivs|Seccomp|Seccomp_filters):[^']*'", rb"\1"),
    (rb"nofile \(.*?\) core \(.*?\)", b"limits"),
    (rb"nice -?\d+", b"nice"),
    (rb"oom -?\d+", b"oom"),
)


def steady(text: bytes) -> bytes:
    """Output without what differs from run to run or from machine to machine; an environment with its lines sorted."""
    for pattern, replacement in _UNSTEADY:
        text = re.sub(pattern, replacement, text)
    lines = text.splitlines(keepends=True)
    if lines and all(re.match(rb"[A-Z_]+=", line) for line in lines):
        text = b"".join(sorted(lines))
    return text
