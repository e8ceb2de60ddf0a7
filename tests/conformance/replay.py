"""Say to our server what a recorded client said to upstream's, and list what comes out differently.

A trace has no times, so the replay keeps what was cause and effect: a request is sent when all before it are answered
and when what upstream had told by then about the process it names has been told here too. Compared is what a client
can rely on: ids, codes, kinds, texts that are not the JSON library's own, members of results and their values, and
for each process the bytes of every stream, its exit and its end. Not compared is what a second run of upstream
would not repeat: how output is cut into chunks and hence seqs, pids, session ids, and where among the messages of
others a notification stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance import disk
from tests.conformance.compare import (
    FILE_RESULTS,
    Story,
    compare_environments,
    compare_errors,
    compare_stories,
    same_chunks,
    stories_of,
)
from tests.conformance.dialogue import Dialogue
from tests.conformance.traces import PIPELINED, Places, Step, Trace, steps_of

CHANGED = "fs/missingChanged"
ANY_BYTES = "QU5Z"
"""In a trace: any content, where that of the recorded machine says nothing (`ANY` in base64)."""


def nothing(folder: Path) -> None:
    """What the recorded client did to the disk most of the time."""


class Replay:
    """One trace against one connection of our server."""

    def __init__(self, trace: Trace, talk: Dialogue, places: Places) -> None:
        self.trace = trace
        self.talk = talk
        self.places = places
        self.steps = steps_of(trace, places)
        notifications = [message for message in trace.recv if "method" in message]
        self.changes = [each for each in notifications if each["method"] == CHANGED]
        notifications = [each for each in notifications if each["method"] != CHANGED]
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
            disk.BEFORE.get((self.trace.name, step.number), nothing)(self.places.folder)
            await (self.talk.say(step.message) if isinstance(step.message, str) else self.talk.send(step.message))
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
            disk.AT_THE_END.get(self.trace.name, nothing)(self.places.folder)
            for change in self.changes:
                await self.talk.expect(change)
        self._compare()
        return self.differences

    async def _await_answer(self, step: Step) -> None:
        assert step.answer is not None
        answer = await self.talk.answer(step.answer["id"])
        self.answers[step.number] = answer
        if step.method == "initialize" and "result" in answer:
            self.session = answer["result"]["sessionId"]

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

    def _told(self, process_id: str) -> list[dict[str, Any]]:
        return [each for each in self.talk.received if each.get("params", {}).get("processId") == process_id]

    def _ours(self) -> dict[str, Story]:
        told = [message for message in self.talk.received if "method" in message and message["method"] != CHANGED]
        return stories_of(told)

    def _compare(self) -> None:
        for step in self.steps:
            if step.answer is not None:
                self._compare_answer(step, step.answer, self.answers.get(step.number))
        if extra := [each for each in self.talk.unexpected() if "id" in each or each["method"] == CHANGED]:
            self.differences.add(f"{len(extra)} answers too many")
        ours = self._ours()
        for process_id, theirs in self.theirs.items():
            name = process_id[:20]
            seqs = [each["params"]["seq"] for each in self._told(process_id)]
            if seqs and seqs != list(range(seqs[0], seqs[0] + len(seqs))):
                self.differences.add(f"{name} order")
            if self._runs_here(process_id):
                self.differences |= {f"{name} {what}" for what in compare_stories(theirs, ours[process_id])}

    def _compare_answer(self, step: Step, theirs: dict[str, Any], ours: dict[str, Any] | None) -> None:
        here = f"#{step.number}"
        if ours is None:
            self.differences.add(f"{here} unanswered")
        elif ("error" in theirs) != ("error" in ours):
            self.differences.add(f"{here} {'result' if 'result' in ours else 'error'}")
        elif "error" in theirs:
            self.differences |= {f"{here} {what}" for what in compare_errors(theirs["error"], ours["error"])}
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
            yield from compare_environments(expected.pop("environmentInfo"), result.pop("environmentInfo"))
        if step.method == "environment/info":
            yield from compare_environments(expected, result)
            return
        if step.method == "process/read":
            yield from self._compare_reads(step, expected, result)
            return
        if step.method in FILE_RESULTS:
            FILE_RESULTS[step.method](expected, result)
        if step.method == "process/terminate" and self._terminated_before(step):
            expected.pop("running")  # upstream had not yet noticed the exit
        for member, value in expected.items():
            if member not in result or (result[member] != value and value != ANY_BYTES):
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
        if not same_chunks(expected.pop("chunks"), result["chunks"], limited):
            yield "result.chunks"
        expected.pop("nextSeq")
        for member, value in expected.items():
            if member not in result or result[member] != value:
                yield f"result.{member}"
