"""What every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import number

# No verdict hangs on how fast the machine is. And a change must not fail for an example that chance finds in
# somebody else's room: CI tries the same ones each time; by hand and in the nightly job Hypothesis looks further.
settings.register_profile(
    "here",
    max_examples=number(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    database=None if os.environ.get("CI") else settings.default.database,
)
settings.load_profile("here")

# They need a browser, and Playwright: `make test-browser` runs them.
collect_ignore = [] if os.environ.get("EXEC_SERVER_BROWSER_TESTS") else ["browser"]


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, which the server is made for."""
    return "asyncio"


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str, list[str]], None]:
    """Shows a table at the end of the run, under a title."""
    return lambda title, lines: record_property("figures", [title, *lines])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, lines in report.user_properties if report.when == "call" else ():
            if name == "figures":
                terminalreporter.section(lines[0])
                for line in lines[1:]:
                    terminalreporter.line(line)
