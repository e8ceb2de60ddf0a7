"""docs/architecture.md against the code: its picture of one command shows every message that is sent, and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.support.program import ROOT

PICTURE = (ROOT / "docs" / "architecture.md").read_text().partition("<!-- messages -->\n```\n")[2].partition("```")[0]
ACTORS = ("transport", "BridgeActor", "RouterActor", "ConnectionActor", "ProcessActor")


def drawn() -> set[tuple[str, str, str]]:
    """The arrows of the picture, as sender, receiver, message."""
    header, *rows = PICTURE.rstrip().splitlines()
    columns = [match.start() for match in re.finditer("│", rows[0])]
    assert len(columns) == len(header.split()) == len(ACTORS)
    arrows = set()
    for row in rows:
        found = re.search(r"[├┤◄►↺─][^│]*[A-Z]\w+[^│]*", row)
        if found is None:
            continue  # what follows, in words
        label = re.findall(r"[A-Z]\w+", found[0])[0]
        ends = [ACTORS[columns.index(match.start())] for match in re.finditer("[├┤◄►↺]", row)]
        first, last = ends[0], ends[-1]
        arrows.add((last, first, label) if "◄" in row else (first, last, label))
    return arrows


def sent() -> set[tuple[str, str, str]]:
    """What a server sends for one command. The wakeups and watches of an actor are its own; how often a bridge yields
    is a matter of time."""
    command = [sys.executable, "-m", "tests.support.message_trace"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=True).stdout
    messages = {(sender, receiver, name) for sender, receiver, name in json.loads(out)}
    return {each for each in messages if each[0] != "program" and each[2] != "TakeMore"}


def test_the_picture_of_one_command_is_what_is_sent() -> None:
    """Lost: a newcomer's first hours, spent on another program than the one that runs."""
    assert drawn() == sent()


def test_the_places_that_the_document_names_are_there() -> None:
    """Lost: the way, for whoever looks a thing up."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:actors|transport|exec_server|protocol|tests|harness)/[\w./]+)`", text))
    assert len(named) > 8
    assert not [each for each in named if not (ROOT / each).exists()]
