"""A server's actors in a Simulation, any number of clients, and a judge of all that the clients are told.

The real RouterActor, ConnectionActor and BridgeActor, each client behind a FakeTransport, a SimulatedProcess for each
child. A script is a list of actions by name with small integers; what an integer cannot name (a client that is not
there) it names modulo what is there, so that every script is valid. Between two actions as many messages are delivered
as the script says, in the order of the simulation's seed.

The judge knows nothing of the actors' books. It knows what each client sent, when, and when its connection ended. In a
simulation no time passes while messages are under way, so an age of 80 s is exact, and only what happens at the same
instant may come in either order.
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from thespian.actors import ActorExitRequest

from actors.base.messages import Configure, Configured, Shutdown
from actors.base.settings import Settings
from actors.router.actor import RouterActor
from protocol.environment import EnvironmentInfo, Shell
from tests.support.fake_transport import FakeTransport
from tests.support.simulated_process import (
    NAME,
    Exits,
    JobsEnd,
    LetsGo,
    Prints,
    Reads,
    SimulatedProcess,
    Spawned,
)
from tests.support.simulation import Simulation
from transport.bridge import BridgeActor, Open

ENVIRONMENT = EnvironmentInfo(
    shell=Shell("sh", "/bin/sh"),
    executor_version="0",
    provider_id="sha256:0",
    cwd="file:///",
    user_home_dir="file:///",
    platform_os="linux",
    temp_dir="file:///tmp",
)
SETTINGS = Settings(environment=ENVIRONMENT, outbound_high_water=3000, max_pending_requests=5, max_pending_bytes=4000)
TTL = SETTINGS.session_ttl
PROBE = SETTINGS.probe_timeout
EPSILON = 1e-3
PROCESS_IDS = ("a", "b", "c")
ALIASES = ("seen-a", "seen-b", "seen-c")
WAITS_MS = (0, 0, 700, 3000, 90_000)
PAUSES_S = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 40.0, 78.0, 79.5, 80.0, 81.0)
SIZES = (80, 400, 1500, 4000)
LONGEST_SCRIPT = 150
LONGEST_WAIT_S = max(WAITS_MS) / 1000

RESUMABLE, SEED_ERA, STDIO = range(3)
POLITE, LATE, PIPELINED = range(3)
"""When a client sends `initialized`: after the answer, when the script says so, right behind `initialize`."""

ACTIONS: dict[str, tuple[int, ...]] = {
    # name: for each argument, how many values it has
    "open": (3, 3),
    "resume": (6, 2, 3),
    "resume_again": (8, 6),
    "resume_nothing": (),
    "handshake_late": (8,),
    "start": (8, 3, 4),
    "read": (8, 3, 5),
    "write": (8, 3, 4),
    "terminate": (8, 3),
    "wait": (8, 3, 5),
    "status": (8,),
    "elsewhere": (8, 6, 3, 5),
    "attach": (8, 6, 3, 3),
    "detach": (8, 3),
    "observe": (8, 3, 5),
    "violate": (8,),
    "spawned": (10, 5),
    "print": (10, 4),
    "exit": (10, 4),
    "let_go": (10,),
    "stdin": (10, 2),
    "jobs_end": (10,),
    "stall": (8,),
    "read_some": (8, 3),
    "silence": (8,),
    "wake": (8,),
    "cut": (8,),
    "end_input": (8,),
    "pause": (len(PAUSES_S),),
    "tick": (),
    "lose_process": (10,),
    "lose_session": (6,),
    "lose_bridge": (8,),
    "shutdown": (),
}
RARE = {"lose_process": 8, "lose_session": 8, "lose_bridge": 8, "shutdown": 30, "violate": 6, "end_input": 3}
GOING_AWAY = 1001
UNTIL_IDLE = 12
"""As the number of deliveries after an action: until there is no mail."""

Step = tuple[str, tuple[int, ...], int]
Script = list[Step]


def script_of(seed: int, length: int = 60) -> Script:
    """A script made of a seed alone."""
    chance = random.Random(seed)
    names = [name for name in ACTIONS for _ in range(30 // RARE.get(name, 1))]
    names += ["resume", "print", "pause", "start", "tick"] * 30
    script: Script = [("open", (0, 0), UNTIL_IDLE)]
    for _ in range(length):
        name = chance.choice(names)
        arguments = tuple(chance.randrange(limit) for limit in ACTIONS[name])
        script.append((name, arguments, chance.choice((0, 0, 1, 2, 4, 7, UNTIL_IDLE))))
    return script


def play(seed: int, script: Script) -> None:
    """Run a script to its end and beyond, until nothing may be left. AssertionError with the first fault."""
    with Simulation(seed) as simulation:
        world = World(simulation)
        with world.watching_the_log():
            for name, arguments, deliveries in script:
                world.act(name, arguments)
                world.deliver(deliveries)
            world.finish()


@dataclass
class Sent:
    """One request of a client, by its id."""

    method: str
    params: dict[str, Any]
    step: int
    time: float


@dataclass
class Stream:
    """What a client has heard of one process id."""

    next_seq: int | None = None
    exited: bool = False
    closed: bool = False


@dataclass
class Session:
    """What the judge knows of a session."""

    owner: Client
    claimants: list[Client] = field(default_factory=list)
    lost_at: float = math.inf


class Client:
    """One connection, as its client sees it."""

    def __init__(self, world: World, kind: int, manners: int) -> None:
        self.world = world
        self.kind = kind
        self.manners = manners
        self.number = len(world.clients)
        self.session_id: str | None = None
        self.wanted: str | None = None
        self.wanted_at = 0.0
        self.requests: dict[int, Sent] = {}
        self.answered: set[int] = set()
        self.streams: dict[str, Stream] = {}
        self.tokens_started: set[str] = set()
        self.tokens_pending: dict[int, str] = {}
        self.detached: dict[str, int] = {}
        self.transport = FakeTransport(
            world.simulation, resumable=kind != STDIO, on_message=lambda data: world.judge(self, data)
        )
        self.attached_at = -math.inf
        self.lost_at = math.inf
        self.bridge = world.simulation.createActor(BridgeActor)
        world.simulation.tell(self.bridge, Open(self.transport, world.router, SETTINGS))
        self.transport.open(lambda event: world.simulation.tell(self.bridge, event))

    @property
    def left_at(self) -> float:
        """When the server knew that the connection was over."""
        return min(self.lost_at, self.transport.ended_at)

    @property
    def ends_session(self) -> bool:
        """Whether its session must end with the connection: stdio, or seed-era and known as such."""
        started = any(sent.method == "process/start" for sent in self.requests.values())
        return self.kind == STDIO or (self.kind == SEED_ERA and self.wanted is None and started)

    def sends(self, method: str, **params: Any) -> int:
        number = len(self.requests)
        if not self.transport.closed and not self.transport.input_ended:
            self.requests[number] = Sent(method, params, self.world.simulation.steps, self.world.simulation.now)
            self._send({"id": number, "method": method, "params": params})
        return number

    def unanswered(self) -> list[str]:
        """The methods of the requests that it still waits for."""
        if self.transport.closed:
            return []
        return [sent.method for number, sent in self.requests.items() if number not in self.answered]

    def notifies(self, method: str) -> None:
        self._send({"method": method, "params": {}})

    def _send(self, message: dict[str, Any]) -> None:
        self.transport.client_sends(json.dumps(message).encode())

    def initializes(self, session_id: str | None) -> None:
        params: dict[str, Any] = {"clientName": f"client {self.number}"}
        if session_id is not None or self.kind != SEED_ERA:
            params["resumeSessionId"] = session_id
        self.wanted = session_id
        self.wanted_at = self.world.simulation.now
        if session_id in self.world.sessions:
            self.world.sessions[session_id].claimants.append(self)
        self.sends("initialize", **params)


class World:
    """The server, its clients, and what must hold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.clients: list[Client] = []
        self.sessions: dict[str, Session] = {}
        self.faults: list[str] = []
        self.shut_down = False
        self._token = 0
        self._writes = 0
        self._failing: list[SimulatedProcess] = []
        self.router = simulation.createActor(RouterActor)
        configure = Configure(SETTINGS, process_class=NAME)
        assert isinstance(simulation.ask(self.router, configure), Configured)
        self._losses = 0
        self._refusals: list[tuple[str, float, str]] = []

    def watching_the_log(self) -> LogWatch:
        return LogWatch(self.faults)

    # -- the script ---------------------------------------------------------------------------------------------

    def act(self, name: str, arguments: tuple[int, ...]) -> None:
        getattr(self, f"do_{name}")(*arguments)
        self.check_always()

    def deliver(self, deliveries: int) -> None:
        if deliveries >= UNTIL_IDLE:
            self.simulation.run_until_idle(20_000)
            self.check_idle()
            return
        for _ in range(deliveries):
            self.simulation.deliver_one()
            self.check_always()

    def pass_time(self, seconds: float) -> None:
        end = self.simulation.now + seconds
        while True:
            due = min((client.transport.flush_deadline for client in self.clients), default=end)
            if due >= end:
                break
            self.simulation.run_until(due)
            for client in self.clients:
                if client.transport.flush_deadline <= due:
                    client.transport.flush_timed_out()
        self.simulation.run_until(end)
        self.check_idle()

    def _client(self, index: int) -> Client | None:
        living = [client for client in self.clients if not client.transport.closed]
        return living[index % len(living)] if living else None

    def _of_client(self, index: int, action: Callable[[Client], object]) -> None:
        client = self._client(index)
        if client is not None:
            action(client)

    def _asks(self, index: int, method: str, **params: Any) -> tuple[Client, int] | None:
        """A request of one of those that have a session, if there is one; with the number it got."""
        living = [client for client in self.clients if not client.transport.closed]
        living = [client for client in living if client.session_id is not None] or living
        if not living:
            return None
        client = living[index % len(living)]
        return client, client.sends(method, **params)

    def processes(self) -> list[tuple[Any, SimulatedProcess]]:
        cells = list(self.simulation.mail.cells.values())
        return [(cell.address, cell.instance) for cell in cells if isinstance(cell.instance, SimulatedProcess)]

    def _tell_process(self, index: int, message: Any) -> None:
        processes = self.processes()
        if processes:
            self.simulation.tell(processes[index % len(processes)][0], message)

    def _new_client(self, kind: int, manners: int, session_id: str | None) -> None:
        client = Client(self, kind, manners)
        self.clients.append(client)
        client.initializes(session_id)
        if manners == PIPELINED:
            client.notifies("initialized")

    def do_open(self, kind: int, manners: int) -> None:
        self._new_client(kind, manners, None)

    def do_resume(self, index: int, kind: int, manners: int) -> None:
        if self.sessions:
            names = list(self.sessions)
            self._new_client(STDIO if kind else RESUMABLE, manners, names[-1 - index % len(names)])

    def do_resume_again(self, index: int, session: int) -> None:
        client = self._client(index)
        if client is not None and self.sessions and client.session_id is None:
            if any(n not in client.answered for n, sent in client.requests.items() if sent.method == "initialize"):
                return
            names = list(self.sessions)
            client.initializes(names[-1 - session % len(names)])

    def do_resume_nothing(self) -> None:
        self._new_client(RESUMABLE, POLITE, "no such session")

    def do_handshake_late(self, index: int) -> None:
        self._of_client(index, lambda client: client.session_id and client.notifies("initialized"))

    def do_start(self, index: int, process_id: int, how: int) -> None:
        self._token += 1
        argv = ["x", f"t{self._token}", *(("at-once",) if how else ()), *(("jobs",) if how == 3 else ())]
        name = PROCESS_IDS[process_id]
        asked = self._asks(index, "process/start", processId=name, argv=argv, cwd="/", env={}, tty=False)
        if asked is not None:
            asked[0].tokens_pending[asked[1]] = argv[1]

    def do_read(self, index: int, process_id: int, wait: int) -> None:
        name = PROCESS_IDS[process_id]
        self._asks(index, "process/read", processId=name, afterSeq=wait, waitMs=WAITS_MS[wait])

    def do_wait(self, index: int, process_id: int, wait: int) -> None:
        self._asks(index, "process/wait", processId=PROCESS_IDS[process_id], waitMs=WAITS_MS[wait])

    def do_write(self, index: int, process_id: int, size: int) -> None:
        self._writes += 1
        name, write_id = PROCESS_IDS[process_id], f"w{self._writes}"
        self._asks(index, "process/write", processId=name, chunk="AAAA" * SIZES[size], writeId=write_id)

    def do_terminate(self, index: int, process_id: int) -> None:
        self._asks(index, "process/terminate", processId=PROCESS_IDS[process_id])

    def do_status(self, index: int) -> None:
        self._asks(index, "environment/status")

    def do_elsewhere(self, index: int, session: int, process_id: int, how: int) -> None:
        if self.sessions:
            names = list(self.sessions)
            where = {"processId": PROCESS_IDS[process_id], "sessionId": names[-1 - session % len(names)]}
            if how:
                self._asks(index, "process/read", afterSeq=how, waitMs=WAITS_MS[how], **where)
            else:
                self._asks(index, "process/terminate", **where)

    def do_attach(self, index: int, session: int, process_id: int, after_seq: int) -> None:
        if self.sessions:
            names = list(self.sessions)
            where = {"processId": PROCESS_IDS[process_id], "sessionId": names[-1 - session % len(names)]}
            alias = {"as": ALIASES[process_id]}
            self._asks(index, "process/attach", afterSeq=after_seq, **where, **alias)

    def do_detach(self, index: int, process_id: int) -> None:
        self._asks(index, "process/detach", processId=ALIASES[process_id])

    def do_observe(self, index: int, process_id: int, wait: int) -> None:
        name = ALIASES[process_id]
        self._asks(index, "process/read", processId=name, afterSeq=wait, waitMs=WAITS_MS[wait])

    def do_violate(self, index: int) -> None:
        self._of_client(index, lambda client: client.notifies("no/such/notification"))

    def do_spawned(self, index: int, how: int) -> None:
        if how == 0:
            self._failing += [process for _, process in self.processes()]
        self._tell_process(index, Spawned(how != 0))

    def do_print(self, index: int, size: int) -> None:
        self._tell_process(index, Prints(SIZES[size]))

    def do_exit(self, index: int, how: int) -> None:
        self._tell_process(index, Exits(how, how != 0))

    def do_let_go(self, index: int) -> None:
        self._tell_process(index, LetsGo())

    def do_stdin(self, index: int, reading: int) -> None:
        self._tell_process(index, Reads(bool(reading)))

    def do_jobs_end(self, index: int) -> None:
        self._tell_process(index, JobsEnd())

    def do_stall(self, index: int) -> None:
        self._of_client(index, lambda client: setattr(client.transport, "reading", False))

    def do_read_some(self, index: int, count: int) -> None:
        self._of_client(index, lambda client: client.transport.client_reads(count + 1))

    def do_silence(self, index: int) -> None:
        self._of_client(index, lambda client: client.transport.go_silent())

    def do_wake(self, index: int) -> None:
        self._of_client(index, lambda client: client.transport.wake_up())

    def do_cut(self, index: int) -> None:
        self._of_client(index, lambda client: client.transport.cut())

    def do_end_input(self, index: int) -> None:
        self._of_client(index, lambda client: client.transport.end_input())

    def do_pause(self, index: int) -> None:
        self.pass_time(PAUSES_S[index])

    def do_tick(self) -> None:
        """Go to the next moment at which something falls due, and let what follows race with it."""
        self.deliver(UNTIL_IDLE)
        flush = min((client.transport.flush_deadline for client in self.clients), default=math.inf)
        due = min(self.simulation.timers.next or math.inf, flush)
        if due < math.inf:
            self.simulation.jump(due)
            for client in self.clients:
                if client.transport.flush_deadline <= due:
                    client.transport.flush_timed_out()

    def do_lose_process(self, index: int) -> None:
        processes = self.processes()
        if processes:
            self._losses += 1
            address, process = processes[index % len(processes)]
            if process in self._failing:
                return  # an actor that is on its way out anyway
            process_id = process.start.params.process_id if hasattr(process, "start") else None
            for client in self.clients:  # what a client heard of a lost process does not go on
                for name, stream in client.streams.items():
                    if process_id in (None, name):
                        stream.next_seq = None
            self.simulation.tell(address, ActorExitRequest())

    def do_lose_session(self, index: int) -> None:
        if self.sessions:
            names = list(self.sessions)
            name = names[-1 - index % len(names)]
            record = self.simulation.instance(self.router).directory.get(name)
            if record is not None:
                self._losses += 1
                self.sessions[name].lost_at = self.simulation.now
                self.simulation.tell(record.connection, ActorExitRequest())

    def do_lose_bridge(self, index: int) -> None:
        client = self._client(index)
        if client is not None:
            client.lost_at = min(client.lost_at, self.simulation.now)
            self.simulation.tell(client.bridge, ActorExitRequest())

    def do_shutdown(self) -> None:
        if not self.shut_down:
            self.shut_down = True
            self.simulation.tell(self.router, Shutdown(), self.simulation.probe())

    # -- the judge ----------------------------------------------------------------------------------------------

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def check_always(self) -> None:
        assert not self.faults, self.faults[0]

    def judge(self, client: Client, data: bytes) -> None:
        """Called for each message that the server hands to a transport, within the bridge's handler."""
        message = json.loads(data)
        if "method" in message:
            self._judge_event(client, message["method"], message["params"])
            return
        number = message["id"]
        if number not in client.requests or number in client.answered:
            self.fault(f"client {client.number}: answer without a request, or a second one: {message}")
            return
        client.answered.add(number)
        sent = client.requests[number]
        if sent.method == "initialize":
            self._judge_initialize(client, sent, message)
        elif sent.method == "process/start" and "result" in message:
            process_id = sent.params["processId"]
            stream = client.streams.get(process_id, Stream(next_seq=None))
            if stream.next_seq is not None and not stream.closed and not self._losses:
                self.fault(f"client {client.number}: {process_id} started while the one before is not closed")
            client.tokens_started.add(client.tokens_pending[number])
            client.streams[process_id] = Stream(next_seq=1)
        elif sent.method == "process/attach" and "result" in message:
            first = min(sent.params["afterSeq"] + 1, message["result"]["nextSeq"])
            client.streams[sent.params["as"]] = Stream(first)
            if number < client.detached.get(sent.params["as"], 0):
                self.fault(f"client {client.number}: attached, although it had detached since")
        elif sent.method == "process/detach" and "result" in message:
            client.streams.pop(sent.params["processId"], None)
            client.detached[sent.params["processId"]] = number
        elif "error" in message and message["error"]["code"] == -32603:
            self._judge_internal_error(client, sent, message["error"])

    def _judge_internal_error(self, client: Client, sent: Sent, error: dict[str, Any]) -> None:
        kind = (error.get("data") or {}).get("kind")
        allowed = {
            "actorLost": self._losses > 0 or sent.params.get("sessionId") or sent.params.get("processId") in ALIASES,
            "busy": sent.method == "process/write",
            "spawnNotFound": sent.method == "process/start",
            None: sent.method == "process/write" and client.transport.input_ended,
        }
        if not allowed.get(kind, False):
            self.fault(f"client {client.number}: {sent.method} answered with {error}")

    def _judge_initialize(self, client: Client, sent: Sent, message: dict[str, Any]) -> None:
        if client.session_id is not None:
            return  # a second initialize
        wanted = client.wanted
        now = self.simulation.now
        who = f"client {client.number} at {now:.1f} s"
        if "result" in message:
            session_id = message["result"]["sessionId"]
            if wanted is None:
                if session_id in self.sessions:
                    self.fault(f"{who}: a new session has the id of another")
                self.sessions[session_id] = Session(client, [client])
            elif session_id != wanted:
                self.fault(f"{who}: wanted {wanted}, got {session_id}")
            else:
                self._judge_resumed(client, who)
            client.session_id = session_id
            client.attached_at = now
            if client.manners == POLITE:
                client.notifies("initialized")
            return
        code = message["error"]["code"]
        if code == -32603 and self.shut_down:
            pass
        elif wanted is None:
            self.fault(f"{who}: no new session: {message}")
        elif code == -32600:
            self._judge_unknown(client, wanted, who)
        elif code == -32010:
            self._judge_refused(client, wanted, who)
        else:
            self.fault(f"{who}: {message}")
        client.wanted = None
        if wanted in self.sessions:
            self.sessions[wanted].claimants.remove(client)

    def _judge_resumed(self, client: Client, who: str) -> None:
        session = self.sessions[client.wanted]  # type: ignore[index]
        now = self.simulation.now
        others = [each for each in session.claimants if each is not client]
        if session.lost_at < now:
            self.fault(f"{who}: resumed a session whose actor is gone")
        if not any(now - each.left_at <= TTL + EPSILON for each in others):
            self.fault(f"{who}: resumed a session that has expired")
        old = session.owner.transport
        alive = not old.closed and old.woke_at < now and old.silent_since > now - PROBE + EPSILON
        if session.owner is not client and alive:
            self.fault(f"{who}: took the session of client {session.owner.number}, which is alive")
        session.owner = client

    def _judge_unknown(self, client: Client, wanted: str, who: str) -> None:
        session = self.sessions.get(wanted)
        if session is None or session.lost_at <= self.simulation.now or self.shut_down:
            return
        others = [each for each in session.claimants if each is not client]
        if any(each.ends_session and each.transport.closed for each in others):
            return
        # One that had asked for it may have had it, and gone, before its answer came.
        perhaps = [each for each in others if each is session.owner or each.session_id is None]
        age = self.simulation.now - min(each.left_at for each in perhaps)
        if age < TTL - EPSILON:
            self.fault(f"{who}: the session is unknown, but its last connection ended {age} s ago")

    def _judge_refused(self, client: Client, wanted: str, who: str) -> None:
        time = client.wanted_at
        for other in self.sessions[wanted].claimants:
            if other is client or other.transport.closed_at < time:
                continue
            if not other.transport.silent_since < time:
                return
        # Perhaps another one won the session at this moment, and its answer is still under way.
        self._refusals.append((wanted, time, f"{who}: refused, but nobody who is alive holds the session"))

    def _judge_refusals(self) -> None:
        for wanted, time, text in self._refusals:
            if not any(each.attached_at >= time for each in self.sessions[wanted].claimants) and not self.shut_down:
                self.fault(text)
        self._refusals.clear()

    def _judge_event(self, client: Client, method: str, params: dict[str, Any]) -> None:
        who = f"client {client.number}"
        process_id = params["processId"]
        if client.session_id is None:
            self.fault(f"{who}: {method} before the answer to initialize")
            return
        if process_id in ALIASES:
            self._judge_watched(client, method, params)
            return
        seq = params["seq"]
        if method == "process/output":
            session_id, token, _ = msgspec.json.decode(f'"{params["chunk"]}"', type=bytes).decode().split("|")
            if session_id != client.session_id:
                self.fault(f"{who}: heard of a process of session {session_id}")
            if token in client.tokens_pending.values() and token not in client.tokens_started:
                self.fault(f"{who}: output of {process_id} before the answer to its start")
        stream = client.streams.get(process_id)
        if stream is None or (stream.closed and seq == 1) or stream.next_seq is None:
            stream = client.streams[process_id] = Stream(next_seq=seq)
        if seq != stream.next_seq:
            self.fault(f"{who}: {method} of {process_id} has seq {seq}, not {stream.next_seq}")
        if stream.closed or (method == "process/exited" and stream.exited):
            self.fault(f"{who}: {method} of {process_id} after closed, or exited twice")
        stream.next_seq = seq + 1
        stream.exited |= method == "process/exited"
        stream.closed = method == "process/closed"

    def _judge_watched(self, client: Client, method: str, params: dict[str, Any]) -> None:
        """An observer misses nothing silently: it hears on from where it stopped, or a gap says what is left out."""
        stream = client.streams.get(params["processId"])
        if stream is None or stream.closed:
            self.fault(f"client {client.number}: {method} of {params['processId']}, which it does not watch")
            return
        first, last = params.get("fromSeq", params.get("seq")), params.get("toSeq", params.get("seq"))
        if stream.next_seq is not None and first != stream.next_seq:
            self.fault(f"client {client.number}: watching, {method} has seq {first}, not {stream.next_seq}")
        stream.next_seq = last + 1
        stream.closed = method == "process/closed"

    def check_idle(self) -> None:
        """What holds whenever no message is under way."""
        self._judge_refusals()
        self.check_always()
        router = self.simulation.instance(self.router)
        for record in router.directory:
            session_id = record.session_id
            holders = [each for each in self.clients if each.session_id == session_id and not each.transport.closed]
            assert len(holders) <= 1, f"clients {[each.number for each in holders]} hold the same session"
            if record.bridge is None:
                assert not holders, f"client {holders[0].number} holds a session that is not attached"
            else:
                owner = [each for each in self.clients if each.bridge == record.bridge]
                assert owner and not owner[0].transport.ended, "a session is attached to a connection that is gone"
        for _, process in self.processes():
            self._check_process(router, process)
        for client in self.clients:
            self._check_connection(client)

    def _check_process(self, router: Any, process: SimulatedProcess) -> None:
        name = f"process {process.start.params.process_id}"
        assert not process.forgotten or process.jobs, f"{name} is forgotten and has no jobs, but is still there"
        for client in self.clients:
            gone = client.transport.ended and process.waits_for(client.bridge)
            assert not gone, f"a request of client {client.number}, which is gone, still waits at {name}"
        record = router.directory.get(process.start.session_id)
        if record is None or process.state not in ("running", "exited") or process.forgotten:
            return
        owner = next(
            (each for each in self.clients if record.bridge is not None and each.bridge == record.bridge), None
        )
        if owner is None:
            assert not process.held, f"{name} is held for nobody"
        elif owner.transport.buffered() == 0 and not owner.transport.closed:
            assert not process.held, f"{name} is held for client {owner.number}, which has read everything"
            stream = owner.streams.get(process.start.params.process_id)
            if stream is not None and stream.next_seq is not None and not self._losses:
                assert stream.next_seq == process.record.next_seq, f"client {owner.number} has missed events of {name}"
        self._check_watchers(router, process, name)

    def _check_watchers(self, router: Any, process: SimulatedProcess, name: str) -> None:
        for observer in router.visits.observers.of(process.start.session_id, process.start.params.process_id):
            client = next(each for each in self.clients if each.bridge == observer.bridge)
            if not client.transport.closed and client.transport.buffered() == 0 and not self._losses:
                stream = client.streams[observer.alias]
                assert stream.next_seq == process.record.next_seq, f"client {client.number}, watching, missed events"

    def _check_connection(self, client: Client) -> None:
        transport = client.transport
        if transport.input_ended and transport.reading and not transport.untaken and not transport.closed:
            waits_for_spawn = any(process.state == "starting" for _, process in self.processes())
            contends = client.wanted is not None and client.session_id is None
            assert waits_for_spawn or contends, f"client {client.number} has ended its input, but is not let go"
        if transport.close_code == GOING_AWAY and not self.shut_down and client.lost_at is math.inf:
            session = self.sessions.get(client.session_id or "")
            if session is not None and session.owner is client and session.lost_at is math.inf:
                others = [each for each in session.claimants if each is not client]
                taken = any(each.transport.closed_at >= transport.closed_at for each in others if each.transport.closed)
                assert taken, f"client {client.number} was sent away, although nobody wants its session"

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Every client reads, every child ends: all is answered. Then all cut: nothing is left."""
        self.simulation.run_until_idle(20_000)
        self.check_idle()
        for client in self.clients:
            client.transport.wake_up()
        for _ in range(LONGEST_SCRIPT):
            self._drive(Spawned(True), Reads(True), Prints(80))
            self.pass_time(LONGEST_WAIT_S)
            unanswered = {client.number: methods for client in self.clients if (methods := client.unanswered())}
            if not unanswered:
                break
        assert not unanswered, f"never answered: {unanswered}"
        for client in self.clients:
            client.transport.cut()
        self.pass_time(0.1)
        self.pass_time(TTL + 1)
        router = self.simulation.instance(self.router)
        assert not len(router.directory), f"{len(router.directory)} sessions are left"
        assert not router.deadlines._when, f"deadlines are left: {list(router.deadlines._when)}"
        observers = router.visits.observers
        books = (router.visits.asked, observers._by_process, observers._by_observer)
        assert not any(books), f"entries are left in the router's books: {books}"
        left = [cell.class_name for cell in self.simulation.mail.cells.values() if cell.instance is not None]
        assert len(left) == self.simulation.live_actors == 1, f"actors are left: {left}"

    def _drive(self, *messages: Any) -> None:
        for address, _ in self.processes():
            for message in messages:
                self.simulation.tell(address, message)
        self.simulation.run_until_idle(20_000)
        self.check_idle()


class LogWatch(logging.Handler):
    """A handler of ours that fails is a fault, whatever became of it."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults
        self._logger = logging.getLogger("exec_server")

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._faults.append(f"{record.getMessage()}: {self.format(record)}")

    def __enter__(self) -> LogWatch:
        self._logger.addHandler(self)
        self._propagates, self._logger.propagate = self._logger.propagate, False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates
