"""The rule of who counts as gone, run against simulated peers under a virtual clock."""

from __future__ import annotations

import socket
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from transport.liveness import GONE_AFTER, Liveness, TcpInfo, limit_retransmission_backoff, read_tcp_info

INTERVAL = 10.0


class Peer:
    """A peer and the kernels of both sides. Dies at `dies_at`; its window closes at `stops_at`; it speaks when told."""

    def __init__(
        self, dies_at: float = float("inf"), stops_at: float = float("inf"), probe_period: float = 10.0
    ) -> None:
        self.dies_at = dies_at
        self.stops_at = stops_at
        self.probe_period = probe_period
        self.acked_at = 0.0
        self.unacked_since: float | None = None

    def receive(self, now: float) -> None:
        """Something was sent to it."""
        if now >= self.stops_at:
            return  # it waits in our own buffer
        if now < self.dies_at:
            self.acked_at = now
        elif self.unacked_since is None:
            self.unacked_since = now

    def tcp(self, now: float) -> TcpInfo:
        probes = 0
        acked_at = self.acked_at
        if now >= self.stops_at and self.unacked_since is None:
            sent = int((now - self.stops_at) / self.probe_period)
            answered = min(sent, int((min(self.dies_at, now) - self.stops_at) / self.probe_period))
            if answered:
                acked_at = self.stops_at + answered * self.probe_period
            probes = sent - answered
        return TcpInfo(probes, 0 if self.unacked_since is None else 1, now - acked_at)


def run(peer: Peer, until: float, looks: list[float], speaks: list[float] = []) -> tuple[float | None, list[float]]:  # noqa: B006
    """When it was declared gone, and when it was pinged. `looks` are extra looks, `speaks` when bytes came from it."""
    liveness = Liveness(0.0, INTERVAL)
    pings: list[float] = []
    due = INTERVAL
    extra = sorted(looks)
    spoken = sorted(speaks)
    now = 0.0
    while True:
        now = min([due, *extra[:1], *spoken[:1]])
        if now > until:
            return None, pings
        if spoken and now == spoken[0]:
            spoken.pop(0)
            liveness.heard_at = now
            peer.acked_at = now
            continue
        if extra and now == extra[0]:
            extra.pop(0)
        verdict = liveness.judge(now, peer.tcp(now))
        if verdict.gone is not None:
            return now, pings
        assert verdict.next_look > now
        due = verdict.next_look
        if verdict.ping:
            pings.append(now)
            peer.receive(now)


times = st.lists(st.floats(0.1, 400), max_size=20)


@given(st.floats(0.5, 200), times, times)
def test_a_dead_peer_is_noticed_within_30_seconds(dies_at: float, looks: list[float], speaks: list[float]) -> None:
    """A laptop that lost its network frees its session in time, and not before it had its chance."""
    spoken = [moment for moment in speaks if moment < dies_at]
    gone_at, pings = run(Peer(dies_at), 500, looks, spoken)
    assert gone_at is not None
    last_life = max([0.0, *spoken, *(ping for ping in pings if ping < dies_at)])
    last_byte = max([0.0, *spoken])
    assert gone_at >= last_life + GONE_AFTER * INTERVAL
    assert gone_at <= max(dies_at + 30, last_byte + 30)


@given(times, times)
@examples(50)
def test_a_silent_peer_whose_kernel_answers_is_kept_and_pinged(looks: list[float], speaks: list[float]) -> None:
    """A stopped client may sleep as long as it likes; it is asked every ten seconds, no more and no less."""
    gone_at, pings = run(Peer(), 1000, looks, speaks)
    assert gone_at is None
    signs = sorted([0.0, *speaks, *pings, 1000.0])
    assert all(b - a <= INTERVAL + INTERVAL / 4 + 0.1 for a, b in pairwise(signs))
    assert all(b - a >= INTERVAL for a, b in pairwise(pings))


@given(st.floats(0.5, 100), st.sampled_from([0.4, 5.0, 10.0, 119.0]), times)
@examples(40)
def test_a_slow_reader_is_kept(stops_at: float, probe_period: float, looks: list[float]) -> None:
    """A client whose window is closed for long keeps its session as long as its kernel answers probes."""
    assert run(Peer(stops_at=stops_at, probe_period=probe_period), 1200, looks)[0] is None


@given(st.floats(0.5, 100), st.floats(0, 300), st.sampled_from([5.0, 10.0, 120.0]), times)
@examples(40)
def test_a_slow_reader_that_dies_is_noticed_by_its_probes(
    stops_at: float, lives_on: float, probe_period: float, looks: list[float]
) -> None:
    """It costs three probes; one that is lost is not enough."""
    dies_at = stops_at + lives_on
    gone_at, _ = run(Peer(dies_at, stops_at, probe_period), 2000, looks)
    assert gone_at is not None
    assert gone_at > dies_at + 2 * probe_period - 0.001
    assert gone_at <= dies_at + max(3 * probe_period, GONE_AFTER * INTERVAL) + INTERVAL


@given(st.floats(1, 500), st.floats(0, 20))
def test_the_clock_stops_while_we_do_not_read(paused_for: float, silent_before: float) -> None:
    """Our own pause is not the peer's silence."""
    liveness = Liveness(0.0, INTERVAL)
    liveness.pause(silent_before)
    liveness.pause(silent_before + paused_for / 2)
    assert liveness.silence(silent_before + paused_for) == pytest.approx(silent_before)
    verdict = liveness.judge(silent_before + paused_for, TcpInfo(probes=0, unacked=0, ack_age=paused_for))
    assert verdict.gone is None
    liveness.resume(silent_before + paused_for)
    assert liveness.silence(silent_before + paused_for + 3) == pytest.approx(silent_before + 3)


def test_a_dead_peer_is_noticed_while_we_do_not_read() -> None:
    """What the kernel knows about our own bytes does not depend on our reading."""
    liveness = Liveness(0.0, INTERVAL)
    liveness.pause(1.0)
    assert liveness.judge(20.0, TcpInfo(probes=0, unacked=1, ack_age=19)).gone is None
    assert liveness.judge(27.0, TcpInfo(probes=0, unacked=1, ack_age=26)).gone is not None


def test_bytes_are_life() -> None:
    """Whatever the kernel says, somebody who speaks is there."""
    liveness = Liveness(0.0, INTERVAL)
    liveness.heard_at = 100.0
    assert liveness.judge(101.0, TcpInfo(probes=9, unacked=9, ack_age=99)).gone is None


def test_a_peer_without_tcp_is_never_gone() -> None:
    """The end of a Unix socket cannot vanish without the kernel saying so."""
    one, other = socket.socketpair()
    with one, other:
        assert read_tcp_info(one) is None
        assert limit_retransmission_backoff(one) is False
    assert Liveness(0.0, INTERVAL).judge(1000.0, None).gone is None


def test_what_the_kernel_says() -> None:
    """The fields are where the kernel has them: acknowledged data is young, data in flight is counted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with ours, theirs:
            ours.send(b"x")
            assert theirs.recv(1) == b"x"
            info = read_tcp_info(ours)
            assert info is not None
            assert (info.probes, info.unacked) == (0, 0)
            assert 0 <= info.ack_age < 5
            limit_retransmission_backoff(ours)
            ours.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    ours.send(b"x" * 65536)
            while (info := read_tcp_info(ours)) is not None and info.unacked > 0:
                pass  # until the window is closed and all that fitted into it is acknowledged
            assert info is not None
            assert info.ack_age < 5
