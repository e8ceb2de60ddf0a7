"""pytest plugin that runs Thespian's own tests on our engine: `pytest -p tests.thespian_suite.plugin`.

Thespian's test modules take the fixture `asys` from `thespian.test`, parameterised over Thespian's
own system bases. It is replaced there, before any of them is imported, by one over ours. What `left_out.toml`
names is deselected.
"""

from __future__ import annotations

import fnmatch
import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import thespian.test
from thespian.actors import ActorSystem

from actors.engine import install

LEFT_OUT = tomllib.loads(Path(__file__).with_name("left_out.toml").read_text())["left_out"]

install()


@pytest.fixture(params=["asyncioBase"])
def asys(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    """As Thespian's own: a system with the capabilities its tests expect."""
    capabilities = {"Foo Allowed": True, "Cows Allowed": True, "Dogs Allowed": True, "dog": "food"}
    system = ActorSystem(request.param, capabilities, logDefs=False, transientUnique=True)
    system.base_name = request.param
    system.port_num = None
    system.txonly = False
    yield system
    system.shutdown()


thespian.test.asys = asys
logging.getLogger("exec_server.engine").setLevel(logging.CRITICAL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    collected = {item.path.stem for item in items}
    patterns = [pattern for entry in LEFT_OUT for pattern in entry["tests"]]
    patterns = [pattern for pattern in patterns if pattern.partition("::")[0] in collected]
    used: set[str] = set()
    dropped = []
    for item in items:
        name = item.path.stem + "::" + item.nodeid.split("::", 1)[1].partition("[")[0]
        matching = [pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)]
        if matching:
            used.update(matching)
            dropped.append(item)
    unused = set(patterns) - used
    if unused:
        raise pytest.UsageError(f"left_out.toml names tests that do not exist: {sorted(unused)}")
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]
