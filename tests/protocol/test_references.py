"""References to documents, in code and among the documents: each leads to a section that is there."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECTION = re.compile(r"(docs/[\w-]+\.md),\s+(?:#\s+)?\"([^\"]+)\"")
FILE = re.compile(r"\bdocs/[\w-]+\.md")
COMING = {"docs/web.md"}
"""Documents that are being written, with what they describe."""
ELSEWHERE = re.compile(r"wire[- ]spec(?!\.md)\w*|\bthe design\b(?! of)|\bdesign,", re.IGNORECASE)
"""Names of documents that are not here."""


@cache
def headings(document: str) -> set[str]:
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    return {heading.replace("`", "") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def faults(path: Path) -> list[str]:
    """References of one file that lead nowhere."""
    text = path.read_text()
    sections = SECTION.findall(re.sub(r"\n\s*(?:# )?", " ", text))
    found = [f'{document}, "{section}"' for document, section in sections if section not in headings(document)]
    found += [document for document in FILE.findall(text) if not (ROOT / document).exists() and document not in COMING]
    if path.suffix == ".py":
        found += [match[0] for match in ELSEWHERE.finditer(text)]
    return found


def test_references_lead_somewhere() -> None:
    """Lost: the reason of a rule, for whoever is about to change it."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    assert len(paths) > 100
    wrong = {str(path.relative_to(ROOT)): faults(path) for path in paths if path.exists() and path != Path(__file__)}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_reference_that_leads_nowhere_is_found() -> None:
    """A check that lets anything pass proves nothing."""
    [(document, section)] = SECTION.findall('(docs/protocol.md, "No such section")')
    assert section not in headings(document)
    assert "process/read" in headings("docs/protocol.md")
    for text in ("(wire-spec 5.3)", "see wire-spec section 2", 'design, "The wire"', "a row of the design's table"):
        assert ELSEWHERE.search(text)
