"""One server program for all tests of a worker that do not need their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.program import Program, program


@pytest.fixture(scope="session")
def server() -> Iterator[Program]:
    """A server program with default settings, shared: sessions keep tests apart."""
    with program() as running:
        yield running
