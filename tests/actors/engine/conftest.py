"""Running a test on an engine that shares the loop of the test, once on asyncio's loop and once on uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from thespian.actors import ActorSystem

from actors.engine import ActorSystemBase, engine_of, install

install()

Scenario = Callable[[ActorSystemBase], Awaitable[None]]

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`run(scenario, capabilities)`: call `scenario(engine)` on a loop, shut the engine down afterwards."""

    def run_scenario(scenario: Scenario, capabilities: dict[str, Any] | None = None) -> None:
        async def main() -> None:
            system = ActorSystem("asyncioBase", capabilities or {}, logDefs=False, transientUnique=True)
            engine = engine_of(system)
            try:
                await scenario(engine)
            finally:
                await engine.ashutdown()
            assert engine.live_actors == 0

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_scenario
