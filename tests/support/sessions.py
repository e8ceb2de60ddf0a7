"""A router with its sessions and bridges in a Simulation, for tests of one rule: clients speak by method and params."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from actors.base.messages import Configure, Configured
from actors.base.settings import Settings
from actors.router.actor import RouterActor
from tests.properties.session_world import ENVIRONMENT
from tests.support.fake_transport import FakeTransport
from tests.support.simulated_process import NAME, SimulatedProcess
from tests.support.simulation import Simulation
from transport.bridge import BridgeActor, Open


class Server:
    """The actors of a server; `limits` are members of Settings."""

    def __init__(self, simulation: Simulation, **limits: Any) -> None:
        self.simulation = simulation
        self.settings = msgspec.structs.replace(Settings(environment=ENVIRONMENT), **limits)
        self.router = simulation.createActor(RouterActor)
        configured = simulation.ask(self.router, Configure(self.settings, process_class=NAME))
        assert isinstance(configured, Configured)

    def connect(self, **transport: Any) -> Client:
        """A new connection that has not said anything."""
        return Client(self, FakeTransport(self.simulation, **transport))

    def session(self, resume: str | None = None, **transport: Any) -> Client:
        """A connection with a session, ready for requests."""
        client = self.connect(**transport)
        client.asks("initialize", clientName="test", resumeSessionId=resume)
        client.notifies("initialized")
        self.simulation.run_until_idle()
        return client

    def processes(self) -> list[tuple[Any, SimulatedProcess]]:
        """Address and actor of every process, oldest first."""
        cells = list(self.simulation.mail.cells.values())
        return [(cell.address, cell.instance) for cell in cells if isinstance(cell.instance, SimulatedProcess)]

    def tell_process(self, *messages: Any, index: int = -1) -> None:
        """What the child does; the newest one's unless `index` says which."""
        for message in messages:
            self.simulation.tell(self.processes()[index][0], message)
        self.simulation.run_until_idle()


class Client:
    """One connection. `frames` is all that was sent to it, whether it has read it or not."""

    def __init__(self, server: Server, transport: FakeTransport) -> None:
        self._simulation = server.simulation
        self.transport = transport
        transport._on_message = lambda data: self.frames.append(json.loads(data))
        self.frames: list[dict[str, Any]] = []
        self._asked = 0
        self.bridge = server.simulation.createActor(BridgeActor)
        server.simulation.tell(self.bridge, Open(transport, server.router, server.settings))
        transport.open(lambda event: server.simulation.tell(self.bridge, event))

    @property
    def session_id(self) -> str:
        name: str = self.answer(1)["result"]["sessionId"]
        return name

    def asks(self, method: str, **params: Any) -> int:
        """Send a request; its id, 1, 2, 3 and so on."""
        self._asked += 1
        self.transport.client_sends(json.dumps({"id": self._asked, "method": method, "params": params}).encode())
        return self._asked

    def calls(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and run until idle; its answer."""
        number = self.asks(method, **params)
        self._simulation.run_until_idle()
        return self.answer(number)

    def starts(self, process_id: str, *how: str, cwd: str = "file:///") -> int:
        """Start a simulated process, which is spawned at once."""
        argv = ["x", process_id, "at-once", *how]
        return self.asks("process/start", processId=process_id, argv=argv, cwd=cwd, env={}, tty=False)

    def notifies(self, method: str) -> None:
        self.transport.client_sends(json.dumps({"method": method, "params": {}}).encode())

    def answer(self, number: int) -> dict[str, Any]:
        """The one answer to a request."""
        answers = self.answers(number)
        assert len(answers) == 1, f"{len(answers)} answers to request {number}"
        return answers[0]

    def answers(self, number: int) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame.get("id") == number]

    def events(self) -> list[tuple[str, int]]:
        """Method and seq of each notification so far."""
        return [(frame["method"], frame["params"]["seq"]) for frame in self.frames if "method" in frame]
