"""Every test of this folder must leave the process with the descriptors and children it had before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.system.child.table import CHILDREN
from tests.actors.system.child.support import descriptors, end, eventually


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = descriptors()
    yield
    try:
        eventually(lambda: not CHILDREN.commands(), "children are left in the table")
        eventually(lambda: len(CHILDREN) == 0, "unreaped children are left")
        eventually(lambda: descriptors() == before, f"descriptors before {before}")
    finally:
        for child in CHILDREN.commands():
            end(child)
