"""Measure any exec-server over its WebSocket, so that two servers can be compared side by side.

The client speaks the seed-era and the current wire at once (it sends the union of the fields and
reads only fields both have).  It is written on picows so that it costs little beside the server.

    python wire_bench.py --server NAME='COMMAND with {port}' [--server NAME2=...] [--only a,b] [--json OUT]

Each scenario runs on a fresh server; the servers alternate, ROUNDS times, and the median is quoted.
cpu = user+system seconds of the server process alone (children not counted), mem = resident memory (RSS).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import shlex
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path

import picows

SEQ = re.compile(rb'"seq":(\d+)')


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tree(pid: int, comm: str | None = None) -> list[int]:
    """The server's own processes: pid and descendants that run the same program (actor processes)."""
    kids: dict[int, list[int]] = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                f = Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
                kids.setdefault(int(f[1]), []).append(int(p))
            except OSError:
                pass
    out, todo = [], [pid]
    exe = os.readlink(f"/proc/{pid}/exe")
    while todo:
        q = todo.pop()
        try:
            if q == pid or os.readlink(f"/proc/{q}/exe") == exe:
                out.append(q)
        except OSError:
            continue
        todo += kids.get(q, [])
    return out


def cpu(pids: list[int]) -> float:
    """CPU seconds of the processes, from their CPU clocks (nanoseconds, where /proc/PID/stat counts ticks of 10 ms)."""
    total = 0.0
    for p in pids:
        try:
            total += time.clock_gettime((~p << 3) | 2)
        except OSError:
            pass
    return total


def rss_mb(pids: list[int]) -> float:
    """Resident memory; Pss would depend on whether another copy of the same binary runs beside it."""
    total = 0
    for p in pids:
        try:
            for line in Path(f"/proc/{p}/smaps_rollup").read_text().splitlines():
                if line.startswith("Rss:"):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total / 1024


class Client(picows.WSListener):
    def __init__(self):
        self.waiting: dict[int, asyncio.Future] = {}
        self.next_id = 0
        self.on_note = None
        self.closed = asyncio.get_running_loop().create_future()
        self.bytes = 0
        self.parts: list[bytes] = []

    def on_ws_connected(self, transport):
        self.t = transport

    def on_ws_disconnected(self, transport):
        if not self.closed.done():
            self.closed.set_result(None)
        for f in self.waiting.values():
            if not f.done():
                f.set_exception(ConnectionError("disconnected"))

    def on_ws_frame(self, transport, frame):
        if frame.msg_type == picows.WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())
            return
        if frame.msg_type == picows.WSMsgType.CLOSE:
            transport.disconnect()
            return
        self.parts.append(frame.get_payload_as_bytes())
        if not frame.fin:
            return
        p = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts.clear()
        self.bytes += len(p)
        head = p[:64]
        if b'"method"' in head or b'"method"' in p[-64:]:
            if self.on_note:
                self.on_note(p)
            return
        m = json.loads(p)
        f = self.waiting.pop(m.get("id"), None)
        if f and not f.done():
            f.set_result(m)

    def call(self, method, params):
        self.next_id += 1
        f = asyncio.get_running_loop().create_future()
        self.waiting[self.next_id] = f
        self.t.send(
            picows.WSMsgType.TEXT, json.dumps({"id": self.next_id, "method": method, "params": params}).encode()
        )
        return f

    async def ok(self, method, params):
        m = await asyncio.wait_for(self.call(method, params), 60)
        if "error" in m:
            raise RuntimeError(f"{method}: {m['error']}")
        return m["result"]


class Server:
    def __init__(self, name, command):
        self.name, self.command = name, command

    async def __aenter__(self):
        self.port = free_port()
        argv = shlex.split(self.command.replace("{port}", str(self.port)))
        self.t0 = time.perf_counter()
        self.p = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        for _ in range(5000):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                break
            except OSError:
                if self.p.poll() is not None:
                    raise RuntimeError(f"{self.name} exited {self.p.returncode}") from None
                await asyncio.sleep(0.002)
        self.ready_s = time.perf_counter() - self.t0
        return self

    async def __aexit__(self, *a):
        try:
            os.killpg(self.p.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        try:
            self.p.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait()

    @property
    def pids(self):
        return tree(self.p.pid)

    async def client(self) -> Client:
        _, c = await picows.ws_connect(Client, f"ws://127.0.0.1:{self.port}/", max_frame_size=1 << 28)
        await c.ok("initialize", {"clientName": "bench"})
        c.t.send(picows.WSMsgType.TEXT, b'{"method":"initialized","params":{}}')
        return c


CWD = os.environ.get("BENCH_CWD", "file:///tmp")
ENV = {"PATH": "/usr/bin:/bin"}


def start(pid, argv, tty=False, pipe_stdin=False):
    return {"processId": pid, "argv": argv, "cwd": CWD, "env": ENV, "tty": tty, "pipeStdin": pipe_stdin, "arg0": None}


class Waiter:
    """Resolve a future when process/closed (or exited, where there is no closed) of an id arrives."""

    def __init__(self, c: Client):
        self.done: dict[bytes, asyncio.Future] = {}
        self.first: dict[bytes, asyncio.Future] = {}
        self.out: dict[bytes, int] = {}
        c.on_note = self
        self.rx = re.compile(rb'"processId":"([^"]+)"')

    def expect(self, pid):
        self.done[pid.encode()] = asyncio.get_running_loop().create_future()
        return self.done[pid.encode()]

    def __call__(self, p):
        h = p[:200] if len(p) > 400 else p
        m = self.rx.search(h) or self.rx.search(p)
        pid = m.group(1)
        if b"process/closed" in h or b"process/closed" in p[-64:]:
            f = self.done.pop(pid, None)
            if f and not f.done():
                f.set_result(time.perf_counter())
        elif b"process/output" in h or b"process/output" in p[-64:]:
            self.out[pid] = self.out.get(pid, 0) + len(p)
            f = self.first.pop(pid, None)
            if f and not f.done():
                f.set_result(time.perf_counter())


def q(xs, p):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(len(xs) * p))]


async def s_ready(srv):
    """From the start of the program to the answer to the first initialize; idle memory after it."""
    await srv.client()
    ready = time.perf_counter() - srv.t0
    await asyncio.sleep(0.3)
    return {"ready_ms": ready * 1e3, "idle_mb": rss_mb(srv.pids), "idle_procs": len(srv.pids)}


async def _start(srv, n, tty):
    c = await srv.client()
    w = Waiter(c)
    acc, life = [], []
    c0 = cpu(srv.pids)
    for i in range(n):
        pid = f"p{i}"
        f = w.expect(pid)
        t0 = time.perf_counter()
        await c.ok("process/start", start(pid, ["/bin/true"], tty=tty))
        t1 = time.perf_counter()
        t2 = await asyncio.wait_for(f, 30)
        acc.append((t1 - t0) * 1e3)
        life.append((t2 - t0) * 1e3)
    return {
        "start_p50_ms": q(acc, 0.5),
        "start_p95_ms": q(acc, 0.95),
        "life_p50_ms": q(life, 0.5),
        "life_p95_ms": q(life, 0.95),
        "cpu_ms_per_proc": (cpu(srv.pids) - c0) * 1e3 / n,
    }


async def s_start_pipe(srv):
    return await _start(srv, 150, False)


async def s_start_pty(srv):
    return await _start(srv, 150, True)


async def _through(srv, argv, mb, tty):
    c = await srv.client()
    w = Waiter(c)
    f = w.expect("big")
    c0 = cpu(srv.pids)
    t0 = time.perf_counter()
    await c.ok("process/start", start("big", argv, tty=tty))
    peak = 0.0
    while not f.done():
        peak = max(peak, rss_mb(srv.pids))
        await asyncio.wait([f], timeout=0.2)
    dt = f.result() - t0
    got = w.out[b"big"] * 3 / 4 / 1e6
    return {"mb_s": mb / dt, "cpu_s_per_gb": (cpu(srv.pids) - c0) / mb * 1000, "peak_mb": peak, "got_ratio": got / mb}


async def s_out_pipe(srv):
    return await _through(srv, ["/usr/bin/head", "-c", "200000000", "/dev/zero"], 200, False)


async def s_out_pty(srv):
    return await _through(srv, ["/usr/bin/head", "-c", "60000000", "/dev/zero"], 60, True)


async def s_out_lines(srv):
    """Many small writes: 300,000 unbuffered lines of 9 bytes."""
    return await _through(srv, ["/usr/bin/stdbuf", "-oL", "/usr/bin/seq", "-w", "10000000", "10300000"], 2.7, False)


async def s_echo(srv):
    c = await srv.client()
    w = Waiter(c)
    await c.ok("process/start", start("cat", ["/bin/cat"], tty=False, pipe_stdin=True))
    await asyncio.sleep(0.2)
    lat = []
    c0 = cpu(srv.pids)
    for i in range(600):
        f = w.first[b"cat"] = asyncio.get_running_loop().create_future()
        t0 = time.perf_counter()
        await c.ok(
            "process/write",
            {"processId": "cat", "chunk": base64.b64encode(b"hello %d\n" % i).decode(), "writeId": f"w{i}"},
        )
        t1 = await asyncio.wait_for(f, 10)
        lat.append((t1 - t0) * 1e3)
    return {
        "echo_p50_ms": q(lat, 0.5),
        "echo_p99_ms": q(lat, 0.99),
        "cpu_us_per_echo": (cpu(srv.pids) - c0) * 1e6 / 600,
    }


async def s_rpc(srv):
    """process/read on an idle process: request round trips, one at a time and 64 in flight."""
    c = await srv.client()
    Waiter(c)
    await c.ok("process/start", start("s", ["/bin/sleep", "60"]))
    lat = []
    for _ in range(1500):
        t0 = time.perf_counter()
        await c.ok("process/read", {"processId": "s", "afterSeq": 0, "maxBytes": 1000, "waitMs": 0})
        lat.append((time.perf_counter() - t0) * 1e3)
    t0 = time.perf_counter()
    n = 6000
    c0 = cpu(srv.pids)
    for _ in range(0, n, 64):
        await asyncio.gather(
            *[
                c.call("process/read", {"processId": "s", "afterSeq": 0, "maxBytes": 1000, "waitMs": 0})
                for _ in range(64)
            ]
        )
    dt = time.perf_counter() - t0
    return {
        "rpc_p50_ms": q(lat, 0.5),
        "rpc_p99_ms": q(lat, 0.99),
        "rpc_per_s": n / dt,
        "cpu_us_per_rpc": (cpu(srv.pids) - c0) * 1e6 / n,
    }


async def s_many(srv):
    """300 live PTY children at once on one connection: start rate, memory per child, all alive."""
    c = await srv.client()
    Waiter(c)
    m0 = rss_mb(srv.pids)
    t0 = time.perf_counter()
    rs = []
    for base in range(0, 300, 50):
        rs += await asyncio.gather(
            *[c.call("process/start", start(f"m{base + i}", ["/bin/sleep", "120"], tty=True)) for i in range(50)]
        )
    dt = time.perf_counter() - t0
    good = sum("result" in r for r in rs)
    await asyncio.sleep(0.5)
    m1 = rss_mb(srv.pids)
    return {
        "starts_per_s": good / dt,
        "started": good,
        "mb_per_child": (m1 - m0) / max(good, 1),
        "server_procs": len(srv.pids),
    }


async def s_crowd(srv):
    """1,000 live PTY children at once: memory of the server for each."""
    c = await srv.client()
    Waiter(c)
    await c.ok("process/start", start("first", ["/bin/sleep", "120"], tty=True))
    m0 = rss_mb(srv.pids)
    good = 0
    for base in range(0, 1000, 50):
        rs = await asyncio.gather(
            *[c.call("process/start", start(f"m{base + i}", ["/bin/sleep", "120"], tty=True)) for i in range(50)]
        )
        good += sum("result" in r for r in rs)
    await asyncio.sleep(0.5)
    return {"started": good, "kb_per_child": (rss_mb(srv.pids) - m0) * 1024 / max(good, 1)}


async def s_conns(srv):
    """100 connections, each running 5 short commands one after another: commands per second."""
    cs = await asyncio.gather(*[srv.client() for _ in range(100)])

    async def work(k, c):
        w = Waiter(c)
        for i in range(5):
            f = w.expect(f"c{k}-{i}")
            await c.ok("process/start", start(f"c{k}-{i}", ["/bin/echo", "hi"]))
            await asyncio.wait_for(f, 60)

    t0 = time.perf_counter()
    await asyncio.gather(*[work(k, c) for k, c in enumerate(cs)])
    return {"cmds_per_s": 500 / (time.perf_counter() - t0), "peak_mb": rss_mb(srv.pids)}


async def s_slow_reader(srv):
    """A client that stops reading while a child writes 300 MB: how far the server's memory grows."""
    c = await srv.client()
    w = Waiter(c)
    base = rss_mb(srv.pids)
    f = w.expect("slow")
    await c.ok("process/start", start("slow", ["/usr/bin/head", "-c", "300000000", "/dev/zero"]))
    c.t.underlying_transport.pause_reading()
    peak = 0.0
    for _ in range(20):
        await asyncio.sleep(0.2)
        peak = max(peak, rss_mb(srv.pids))
    c.t.underlying_transport.resume_reading()
    try:
        await asyncio.wait_for(f, 60)
        ok = 1
    except TimeoutError:
        ok = 0
    return {"growth_mb": peak - base, "finished": ok, "got_ratio": w.out.get(b"slow", 0) * 3 / 4 / 300e6}


async def s_file(srv):
    path = "/tmp/bench_blob"
    with open(path, "wb") as fh:
        fh.write(os.urandom(1 << 20) * 16)
    c = await srv.client()
    Waiter(c)
    lat = []
    for _ in range(5):
        t0 = time.perf_counter()
        r = await c.ok("fs/readFile", {"path": f"file://{path}" if CWD.startswith("file:") else path})
        lat.append(time.perf_counter() - t0)
    assert len(base64.b64decode(r["dataBase64"])) == 16 << 20
    return {"read_mb_s": 16.8 / q(lat, 0.5)}


SCENARIOS = {k[2:]: v for k, v in list(globals().items()) if k.startswith("s_")}


async def measured(scenario: str, servers: list[tuple[str, str]], rounds: int) -> dict[str, list[dict]]:
    """The results of one scenario by server, the servers in turn; one that fails it has its error as a result."""
    results: dict[str, list[dict]] = {name: [] for name, _ in servers}
    for _ in range(rounds):
        for name, command in servers:
            try:
                async with Server(name, command) as srv:
                    out = await asyncio.wait_for(SCENARIOS[scenario](srv), 150)
            except Exception as e:
                out = {"error": f"{type(e).__name__}: {e}"}
            results[name].append(out)
    return results


def median_of(outs: list[dict], figure: str) -> float | str | None:
    """The median of a figure over the rounds that have it."""
    values = [out[figure] for out in outs if figure in out]
    return values[0] if values and isinstance(values[0], str) else statistics.median(values) if values else None


def report(scenario: str, results: dict[str, list[dict]]) -> None:
    """A line a figure: each server's median, and the ratio of the first to the second."""
    figures = dict.fromkeys(figure for outs in results.values() for out in outs for figure in out)
    for figure in figures:
        row = [median_of(outs, figure) for outs in results.values()]
        shown = (f"{x:.3f}" if isinstance(x, float) else str(x) for x in row)
        text = "  ".join(f"{name}={each}" for name, each in zip(results, shown, strict=True))
        numbers = [x for x in row if isinstance(x, (int, float))]
        ratio = f"  ratio={numbers[0] / numbers[1]:.2f}" if len(numbers) == len(row) == 2 and numbers[1] else ""
        print(f"{scenario:12} {figure:18} {text}{ratio}", flush=True)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    ap.add_argument("--only", default="", help="scenarios, separated by commas: " + ", ".join(SCENARIOS))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--json", default="", help="write all results to this file too")
    a = ap.parse_args()
    servers = [(name, command) for name, _, command in (s.partition("=") for s in a.server)]
    everything = {}
    for scenario in SCENARIOS:
        if not a.only or scenario in a.only.split(","):
            everything[scenario] = asyncio.run(measured(scenario, servers, a.rounds))
            report(scenario, everything[scenario])
    if a.json:
        Path(a.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
