"""Say to our server what a recorded client said to upstream's, and list what comes out differently.

A trace has no times, so the replay keeps what was cause and effect: a request is sent when all before it are answered
and when what upstream had told by then about the process it names has been told here too. Compared is what a client
can rely on: ids, codes, kinds, texts that are not the JSON library's own, members of results and their values, and
for each process the bytes of every stream, its exit and its end. Not compared is what a second run of upstream
would not repeat: how output is cut into chunks and hence seqs, pids, session ids, and where among the messages of
others a notification stands.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.dialogue import Dialogue

DATA = Path(__file__).parent / "data" / "traces.jsonl"
PIPELINED = ("concurrency/1", "concurrency/4")
"""Traces whose client did not wait for answers."""

BINARY = bytes(range(256)) * 3907
BINARY_BASE64 = base64.b64encode(BINARY[:1_000_000]).decode()
PASTE = (bytes(range(32, 127)) * 1053)[:100_000]
LIBRARY_TEXTS = re.compile(
    r"invalid (type|length|number|character)|unknown variant|Invalid (symbol|padding)|duplicate|recursion"
    r"|missing field `error`"
)
"""Texts of upstream's JSON library: of those only code and id count (wire-spec section 2)."""
PID = re.compile(rb"(?m)^\d+(\r?)$")


@dataclass
class Trace:
    """What a client sent (exact text, or base64 under `binary`) and what it was told, in the order of arrival."""

    name: str
    send: list[str | dict[str, str]]
    recv: list[Any]
    closed: bool = False


@dataclass
class Places:
    """What the recorded client knew under other names: a folder, a home, a session id."""

    folder: Path
    session: str = "no session"

    def __post_init__(self) -> None:
        self._values = {
            "@DIR@": str(self.folder),
            "@HOME@": os.path.expanduser("~"),
            "@PYTHON@": sys.executable,
            "@LONG@": "x" * 5000,
            "@MD5@": hashlib.md5(PASTE).hexdigest(),
        }

    def fill(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        text = text.replace("@BYTES:1000000@", BINARY_BASE64)
        text = text.replace("@ASCII:100000@", base64.b64encode(PASTE).decode())
        return text.replace("@SESSION@", self.session)


def load() -> dict[str, Trace]:
    """All traces by name."""
    return {row["name"]: Trace(**row) for row in map(json.loads, DATA.read_text().splitlines())}


@dataclass
class Step:
    """One message of the client, and the answer it got from upstream (None: none)."""

    number: int
    message: str | bytes
    request: dict[str, Any] | None
    """The message if it is a request with an id that can be answered under it."""
    answer: dict[str, Any] | None = None
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The notifications of each process that upstream had sent when it answered."""

    @property
    def process_id(self) -> str | None:
        params = self.request.get("params") if self.request else None
        process_id = params.get("processId") if isinstance(params, dict) else None
        return process_id if isinstance(process_id, str) else None

    @property
    def method(self) -> str:
        return str(self.request["method"]) if self.request else ""


def steps_of(trace: Trace, places: Places) -> list[Step]:
    steps = [_step(number, raw, places) for number, raw in enumerate(trace.send, 1)]
    answers = [(position, message) for position, message in enumerate(trace.recv) if "id" in message]
    answerable = [step for step in steps if not _is_notification(step.message)]
    if trace.name in PIPELINED:
        by_id = {message["id"]: (position, message) for position, message in answers}
        answers = [by_id[step.request["id"]] for step in answerable if step.request]
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    position = 0
    for step, (answered_at, answer) in zip(answerable, answers, strict=False):
        for message in trace.recv[position:answered_at]:
            if "method" in message:
                told[message["params"]["processId"]].append(json.loads(places.fill(json.dumps(message))))
        position = max(position, answered_at)
        step.answer = json.loads(places.fill(json.dumps(answer)))
        step.told = {process_id: list(messages) for process_id, messages in told.items()}
    return steps


def _step(number: int, raw: str | dict[str, str], places: Places) -> Step:
    if isinstance(raw, dict):
        return Step(number, base64.b64decode(raw["binary"]), None)
    text = places.fill(raw)
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    is_request = isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message
    return Step(number, text, message if is_request else None)


def _is_notification(message: str | bytes) -> bool:
    try:
        parsed = json.loads(message)
    except ValueError:
        return False
    return isinstance(parsed, dict) and isinstance(parsed.get("method"), str) and "id" not in parsed


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


class Replay:
    """One trace against one connection of our server."""

    def __init__(self, trace: Trace, talk: Dialogue, places: Places) -> None:
        self.trace = trace
        self.talk = talk
        self.places = places
        self.steps = steps_of(trace, places)
        notifications = [message for message in trace.recv if "method" in message]
        filled = [json.loads(places.fill(json.dumps(message))) for message in notifications]
        self.theirs = stories_of(filled)
        self.answers: dict[int, dict[str, Any]] = {}
        self.differences: set[str] = set()
        self.session: str | None = None

    async def run(self) -> set[str]:
        """Carry out the trace, wait for what upstream had told by its end, and give what differs."""
        for step in self.steps:
            if self.talk.closed is not None:
                break
            if self.trace.name not in PIPELINED:
                await self._await_news(step)
            await self.talk.send(step.message)
            if step.answer is not None and self.trace.name not in PIPELINED:
                await self._await_answer(step)
        if self.trace.name in PIPELINED:
            for step in self.steps:
                if step.answer is not None:
                    await self._await_answer(step)
        if self.trace.closed:
            await self.talk.expect_closed()
        else:
            for process_id in self.theirs:
                await self._until_told(process_id, {"exited", "closed"} & set(self.theirs[process_id].kinds))
                await self._until_printed(process_id, self.theirs[process_id])
        self._compare()
        return self.differences

    async def _await_answer(self, step: Step) -> None:
        assert step.answer is not None
        answer = await self.talk.answer(step.answer["id"])
        self.answers[step.number] = answer
        if step.method == "initialize" and "result" in answer:
            self.session = answer["result"]["sessionId"]
        if step.method == "process/start":
            early = [each for each in self.talk.received if each.get("params", {}).get("processId") == step.process_id]
            before = self.talk.received.index(answer)
            if any(self.talk.received.index(each) < before for each in early) and "result" in answer:
                first = next(each for each in early)
                if not self._started_before(step):
                    self.talk.fail(f"{first['method']} came before the answer to the start")

    def _started_before(self, step: Step) -> bool:
        return (
            any(
                earlier.process_id == step.process_id and "result" in self.answers.get(earlier.number, {})
                for earlier in self.steps[: step.number - 1]
                if earlier.method == "process/start"
            )
            or self.places.session != "no session"
        )

    async def _await_news(self, step: Step) -> None:
        """What upstream's client knew of the process when it sent this, or certainly when it was answered."""
        process_id = step.process_id
        if process_id is None or step.method == "process/start" or process_id not in self.theirs:
            return
        if step.method == "process/read" and (step.request or {})["params"].get("waitMs"):
            return  # the answer is what it waits for
        for story in stories_of(step.told.get(process_id, [])).values():
            await self._until_told(process_id, {"exited", "closed"} & set(story.kinds))
            await self._until_printed(process_id, story)

    async def _until_told(self, process_id: str, kinds: set[str]) -> None:
        if not self._runs_here(process_id):
            return
        while not kinds <= set(self._ours()[process_id].kinds):
            await self.talk.hear(f"{sorted(kinds)} of {process_id!r}")

    async def _until_printed(self, process_id: str, story: Story) -> None:
        for stream, expected in story.outputs.items():
            lines = expected.count(b"\n")
            while self._runs_here(process_id):
                ours = self._ours()[process_id]
                printed = ours.outputs.get(stream, b"")
                if ours.closed or (printed.count(b"\n") >= lines and (lines or len(printed) >= len(expected))):
                    break
                await self.talk.hear(f"{len(expected)} bytes on {stream} of {process_id!r}")

    def _runs_here(self, process_id: str) -> bool:
        """Whether our server has such a process: where only it refused the start, there is no more to be told."""
        starts = [
            step.number
            for step in self.steps
            if step.method == "process/start" and step.process_id == process_id and "result" in (step.answer or {})
        ]
        return not starts or any("result" in self.answers.get(number, {}) for number in starts)

    def _ours(self) -> dict[str, Story]:
        return stories_of([message for message in self.talk.received if "method" in message])

    def _compare(self) -> None:
        for step in self.steps:
            if step.answer is not None:
                self._compare_answer(step, step.answer, self.answers.get(step.number))
        ours = self._ours()
        for process_id, theirs in self.theirs.items():
            if self._runs_here(process_id):
                name = process_id[:20]
                self.differences |= {f"{name} {what}" for what in _compare_stories(theirs, ours[process_id])}

    def _compare_answer(self, step: Step, theirs: dict[str, Any], ours: dict[str, Any] | None) -> None:
        here = f"#{step.number}"
        if ours is None:
            self.differences.add(f"{here} unanswered")
        elif ("error" in theirs) != ("error" in ours):
            self.differences.add(f"{here} {'result' if 'result' in ours else 'error'}")
        elif "error" in theirs:
            self.differences |= {f"{here} {what}" for what in _compare_errors(theirs["error"], ours["error"])}
        else:
            self.differences |= {f"{here} {what}" for what in self._compare_results(step, theirs, ours)}

    def _compare_results(self, step: Step, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
        expected, result = dict(theirs["result"]), dict(ours["result"])
        if not isinstance(ours["result"], dict):
            yield "result"
            return
        if step.method == "initialize":
            expected.pop("sessionId")
            if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", result["sessionId"]) is None:
                yield "sessionId"
        if "environmentInfo" in expected:
            yield from _compare_environments(expected.pop("environmentInfo"), result.pop("environmentInfo"))
        if step.method == "environment/info":
            yield from _compare_environments(expected, result)
            return
        if step.method == "process/read":
            yield from self._compare_reads(step, expected, result)
            return
        if step.method == "process/terminate" and self._terminated_before(step):
            expected.pop("running")  # upstream had not yet noticed the exit
        for member, value in expected.items():
            if member not in result or result[member] != value:
                yield f"result.{member}"

    def _terminated_before(self, step: Step) -> bool:
        return any(
            earlier.method == "process/terminate" and earlier.process_id == step.process_id
            for earlier in self.steps[: step.number - 1]
        )

    def _compare_reads(self, step: Step, expected: dict[str, Any], result: dict[str, Any]) -> Iterator[str]:
        assert step.process_id is not None
        params = (step.request or {})["params"]
        theirs = self.theirs.get(step.process_id, Story())
        ours = self._ours()[step.process_id]
        told = theirs.event(expected["nextSeq"] - 1), ours.event(result["nextSeq"] - 1)
        limited = params.get("maxBytes") is not None
        if limited and result["nextSeq"] == result["chunks"][-1]["seq"] + 1:
            pass  # cut behind the chunks that were given; ours may be all there are
        elif params.get("waitMs") and told == ("closed", "exited") and result["exited"] and not result["closed"]:
            expected.pop("closed")  # upstream took so long to wake the waiter that the end had come too
        elif told[0] != told[1] and not (limited and told[1] == "closed"):
            yield "result.nextSeq"
        if not _same_chunks(expected.pop("chunks"), result["chunks"], limited):
            yield "result.chunks"
        expected.pop("nextSeq")
        for member, value in expected.items():
            if member not in result or result[member] != value:
                yield f"result.{member}"


def _same_chunks(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], limited: bool) -> bool:
    """The same bytes on each stream; where `maxBytes` stopped at one chunk, as far as both go."""
    if limited and len(ours) != len(theirs):
        return False
    for stream in {chunk["stream"] for chunk in theirs + ours}:
        expected, printed = (
            _steady(b"".join(chunk_bytes(chunk) for chunk in chunks if chunk["stream"] == stream))
            for chunks in (theirs, ours)
        )
        if not (expected == printed or (limited and printed.startswith(expected))):
            return False
    return True


def _compare_errors(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
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


def _compare_environments(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
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


def _compare_stories(theirs: Story, ours: Story) -> Iterator[str]:
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
        printed = _steady(ours.outputs.get(stream, b""))
        expected = _steady(expected)
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


def _steady(text: bytes) -> bytes:
    """Output without what differs from run to run or from machine to machine; an environment with its lines sorted."""
    for pattern, replacement in _UNSTEADY:
        text = re.sub(pattern, replacement, text)
    lines = text.splitlines(keepends=True)
    if lines and all(re.match(rb"[A-Z_]+=", line) for line in lines):
        text = b"".join(sorted(lines))
    return text
