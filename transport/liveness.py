"""When a peer counts as gone: pings, silence, and what the kernel knows about its acknowledgements. Pure.

A peer that answers nothing may still be alive: stopped, or so slow a reader that our Ping waits behind its
data. Its kernel acknowledges then, and that is life enough: the child it listens to is entitled to wait. So
silence alone ends nothing. A peer is gone when it is silent and its kernel is, too:

* something of ours is in flight and nothing has been acknowledged for `GONE_AFTER` ping intervals, or
* its window is closed and `GONE_PROBES` zero-window probes in a row went unanswered. The kernel sends them
  ever more rarely, up to 120 s apart (8 s where `TCP_RTO_MAX_MS` exists, Linux 6.15).

A Ping is sent every interval without received bytes, so that there is always something to acknowledge. Field
meanings: tcp(7), linux/tcp.h `struct tcp_info`.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Final, NamedTuple

GONE_AFTER: Final = 2.5
"""Ping intervals without any sign of life after which a peer counts as gone: 25 s, and noticed within 30 s.
"""
GONE_PROBES: Final = 3
"""One lost probe, or its lost answer, must not cut a living slow reader."""

RETRANSMIT_LIMIT_MS: Final = 8_000
_TCP_RTO_MAX_MS = 44  # linux/tcp.h; missing in the socket module

# The first 104 bytes of struct tcp_info: eight bytes of small fields, then u32 fields in order.
_tcp_info = Struct("=6B2x24I")


class TcpInfo(NamedTuple):
    """The part of `struct tcp_info` that tells whether the peer's kernel answers."""

    probes: int
    """Zero-window or keep-alive probes sent since the last acknowledgement."""
    unacked: int
    """Segments in flight."""
    ack_age: float
    """Seconds since the last acknowledgement came in."""


def read_tcp_info(sock: socket.socket) -> TcpInfo | None:
    """What the kernel knows, or None for a socket that is not TCP (its peer cannot vanish without a word)."""
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _tcp_info.size)
    except OSError:
        return None
    if len(raw) < _tcp_info.size:
        return None
    fields = _tcp_info.unpack(raw)
    return TcpInfo(probes=fields[3], unacked=fields[10], ack_age=fields[18] / 1000)


def limit_retransmission_backoff(sock: socket.socket) -> bool:
    """Ask the kernel to retransmit and probe at least every 8 s, so that a dead peer behind a closed window
    is noticed in half a minute. False where the kernel cannot (before Linux 6.15, or not TCP)."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, RETRANSMIT_LIMIT_MS)
    except OSError:
        return False
    return True


class Verdict(NamedTuple):
    """What to do now, and when to judge again (seconds of the same clock)."""

    ping: bool
    gone: str | None
    next_look: float


class Liveness:
    """The clock of one peer. `now` is any monotonic clock in seconds; `heard_at` may be set directly (hot
    path)."""

    __slots__ = ("_interval", "_paused_at", "_pinged_at", "heard_at")

    def __init__(self, now: float, interval: float) -> None:
        self._interval = interval
        self.heard_at = now
        self._pinged_at = now
        self._paused_at: float | None = None

    def pause(self, now: float) -> None:
        """We stopped reading: silence means nothing from here on."""
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        """We read again: the time in between does not count as silence."""
        if self._paused_at is not None:
            self.heard_at += now - max(self._paused_at, self.heard_at)
            self._paused_at = None

    def silence(self, now: float) -> float:
        """Seconds without a byte, those in which we did not read left out."""
        end = now if self._paused_at is None else self._paused_at
        return max(0.0, end - self.heard_at)

    def judge(self, now: float, tcp: TcpInfo | None) -> Verdict:
        """Call at `next_look`, or earlier; `tcp` as the kernel has it now."""
        gone_after = GONE_AFTER * self._interval
        silence = self.silence(now)
        counts = silence >= gone_after or self._paused_at is not None
        if counts and tcp is not None and tcp.ack_age >= gone_after:
            if tcp.unacked > 0:
                return Verdict(False, f"peer is gone: nothing acknowledged for {tcp.ack_age:.0f} s", now)
            if tcp.probes >= GONE_PROBES:
                return Verdict(False, f"peer is gone: {tcp.probes} window probes unanswered", now)
        ping = silence >= self._interval and now - self._pinged_at >= self._interval
        if ping:
            self._pinged_at = now
        return Verdict(ping, None, now + self._next(now, silence))

    def _next(self, now: float, silence: float) -> float:
        if self._paused_at is not None:
            return self._interval / 2
        if silence < self._interval:
            due = self._interval - silence
        else:
            due = min(self._pinged_at + self._interval - now, self._interval / 4)
        return max(due, 0.01)
