"""Failed attempts to connect: how long an answer is held back, and which are worth a line in the log.

Guesses are made dear, and a client with the right token is never delayed or locked out, whatever others do from its
address. What is remembered is bounded: the addresses that failed last, the answers that are held, a line a second for
each address.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

FIRST_S: Final = 0.1
"""How long the answer to the first failure from an address is held, in seconds; each further one twice as long."""
MOST_S: Final = 3.2
FORGET_S: Final = 60.0
"""After so many seconds without a failure an address is as good as any."""
ADDRESSES: Final = 1024
"""How many addresses are remembered; the one whose last failure is longest ago makes room."""
HELD: Final = 128
"""How many answers are held at a time. Further connections are cut: they must neither cost descriptors nor be answered
sooner than others."""
LOG_S: Final = 1.0
"""Seconds between two lines in the log about one address."""


@dataclass(slots=True)
class _Address:
    failures: int = 0
    failed_at: float = 0.0
    logged_at: float = float("-inf")
    unlogged: int = 0


class FailureThrottle:
    """The failures of one listener. Pure: times in seconds are told to it, and must not go back."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._held_until: list[float] = []

    def fail(self, host: str, now: float, hold: bool = True) -> tuple[float | None, int | None]:
        """An attempt from this IP address has failed: for how many seconds to hold the answer (0 where it is not to be
        held, None where there is to be none), and how many failures a line in the log stands for (None: no line)."""
        address = self._of(_network(host), now)
        address.failures += 1
        address.failed_at = now
        address.unlogged += 1
        stands_for = None
        if now - address.logged_at >= LOG_S:
            stands_for, address.unlogged, address.logged_at = address.unlogged, 0, now
        self._held_until = [until for until in self._held_until if until > now]
        if not hold:
            return 0.0, stands_for
        if len(self._held_until) >= HELD:
            return None, stands_for
        delay = min(MOST_S, FIRST_S * 2.0 ** min(address.failures - 1, 16))
        self._held_until.append(now + delay)
        return delay, stands_for

    def _of(self, key: str, now: float) -> _Address:
        address = self._addresses.pop(key, None)
        if address is None:
            address = _Address()
        elif now - address.failed_at > FORGET_S:
            address.failures = 0
        self._addresses[key] = address
        if len(self._addresses) > ADDRESSES:
            self._addresses.popitem(last=False)
        return address


def _network(host: str) -> str:
    """Who has one IPv6 address has 2**64 of them (RFC 6177)."""
    if ":" not in host:
        return host
    return IPv6Address(host.partition("%")[0]).packed[:8].hex()
