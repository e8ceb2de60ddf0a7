"""`exec-harness history`: look at the prompts that agents have kept, and drop the oldest."""

from __future__ import annotations

import asyncio
import json as json_module
import time
from collections.abc import Iterable
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from exec_server.printable import printable
from harness.cli.ending import Home, Json, home_of, tell
from harness.history.log import DEFAULT_MAX_BYTES, Entry, HistoryLog

app = cyclopts.App(name="history", help="Look at kept prompts, and drop the oldest.", result_action="return_value")

Limit = Annotated[int, Parameter(name=("--limit", "-n"))]


@app.command
def show(*, limit: Limit = 20, home: Home = None, json: Json = False) -> int:
    """Print the newest prompts, the newest last.

    Parameters
    ----------
    limit
        How many at most.
    """
    found = asyncio.run(_newest(HistoryLog(home_of(home)), limit))
    _print(found, json)
    return 0


@app.command
def search(needle: str, /, *, limit: Limit = 20, home: Home = None, json: Json = False) -> int:
    """Print the newest prompts that have a text in them, in whatever case, each once, the newest last.

    Parameters
    ----------
    needle
        The text.
    limit
        How many at most.
    """
    found = asyncio.run(HistoryLog(home_of(home)).search(needle, limit=limit))
    _print(found, json)
    return 0


@app.command
def trim(*, max_bytes: int = DEFAULT_MAX_BYTES, home: Home = None, json: Json = False) -> int:
    """Drop the oldest prompts of a history that is larger than it may be; the newest one stays.

    Parameters
    ----------
    max_bytes
        How many bytes it may have; it is made to fit into four fifths of that.
    """
    if max_bytes < 1:
        raise ValueError(f"--max-bytes is a size of 1 or more, not {max_bytes}")
    log = HistoryLog(home_of(home))
    dropped = asyncio.run(log.trim(max_bytes))
    if json:
        print(json_module.dumps({"path": str(log.path), "droppedBytes": dropped}))
    else:
        print(f"dropped {dropped} bytes of {printable(str(log.path))}")
    return 0


async def _newest(log: HistoryLog, limit: int) -> list[Entry]:
    found: list[Entry] = []
    batch = await log.batch()
    while True:
        found += batch.entries
        if len(found) >= limit or batch.cursor is None:
            return found[: max(limit, 0)]
        batch = await log.older(batch.cursor)
        if not batch.entries:
            tell("the history was trimmed meanwhile: what is older is not shown")
            return found


def _print(found: Iterable[Entry], as_json: bool) -> None:
    entries = [entry for entry in reversed([*found]) if entry.record is not None]
    if as_json:
        print(json_module.dumps([_members(each) for each in entries], ensure_ascii=False, indent=2))
        return
    for entry in entries:
        assert entry.record is not None
        print(f"{entry.offset:>6}  {_when(entry.record.ts)}  {printable(' '.join(entry.record.text.split()))}")


def _when(ts: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(ts))
    except (OverflowError, ValueError, OSError):  # another program has written it
        return str(ts)


def _members(entry: Entry) -> dict[str, object]:
    assert entry.record is not None
    record = entry.record
    return {"offset": entry.offset, "sessionId": record.session_id, "ts": record.ts, "text": record.text}
