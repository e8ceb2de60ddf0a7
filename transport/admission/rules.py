"""Who may connect to a listener: the rules that come before any request is served. docs/security.md has the reasons."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple

from websockets.datastructures import Headers
from websockets.http11 import Request

from actors.system.limit_warnings import LimitWarnings
from transport.admission.auth import Authenticator, DeniedError, Grant
from transport.admission.throttle import FailureThrottle
from transport.admission.web import Denied, WebAccess, WebAnswer

LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))

LOGGED: Final = 100
"""How many characters of what a stranger said go into the log."""

_log = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """An HTTP status and a text, and for how long in seconds to hold them back."""

    status: int
    text: str
    delay: float | None = 0.0
    """None: there is no room to hold it, and it is not to be answered."""


class Entry(NamedTuple):
    """Somebody who was let in: by which grant, where a token was asked for, and which `observeId` they may watch and
    nothing else, or None: they may do everything."""

    grant: Grant | None = None
    watches: str | None = None


@dataclass
class Admission:
    """The rules of one listener; as made, without arguments, those for the user's own programs alone.

    Its members may be changed while it listens, and hold for whoever connects from then on.
    """

    authenticator: Authenticator | None = None
    """Judges the bearer token of an upgrade; None: no token is asked for."""
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may connect, lower-case."""
    hosts: frozenset[str] | None = frozenset()
    """Names that a `Host` header may have beside the address that was connected to and localhost, lower-case; None:
    any."""
    own_user_only: bool = True
    """Whether peers must belong to the user that the server runs as, or to root."""
    max_connections: int = 10_000
    """WebSocket connections at a time."""
    connections: int = 0
    """How many there are."""
    refusals: int = 0
    """How many there was no room for."""
    web: WebAccess | None = None
    """Rules of the page that is served beside the WebSocket; None: there is none."""
    lingering: int = 0
    """Connections at their end that were never let in, and are given a moment to read why."""
    ending: bool = False
    """Whether nobody new is served any more."""
    brake: FailureThrottle = field(default_factory=FailureThrottle)
    _near: LimitWarnings = field(default_factory=LimitWarnings)

    def judge_origin(self, origins: Sequence[str], peer: str) -> Refusal | None:
        """A web page sends its origin (RFC 6454, 7), and nobody else should. It learns nothing from the answer."""
        if not origins or self._is_allowed(origins):
            return None
        self._note(peer, f"a web page of origin {origins[0][:LOGGED]!r}")
        return Refusal(403, "")

    def judge_fetch(self, headers: Headers, peer: str) -> Refusal | None:
        """An image or a script of a web page comes without an origin, but browsers say where it is from (Fetch
        Metadata, Sec-Fetch-Site). Following a link to our own page is no such thing."""
        site = headers.get_all("Sec-Fetch-Site")
        if not site or headers.get_all("Origin") or set(site) <= {"none", "same-origin"}:
            return None
        if self.web is not None and headers.get_all("Sec-Fetch-Dest") == ["document"]:
            return None
        self._note(peer, f"a request of a web page ({site[0][:LOGGED]!r})")
        return Refusal(403, "")

    def is_own_page(self, headers: Headers) -> bool:
        """Whether a request is from our own page, which needs its cookie for all that it does."""
        return self.web is not None and self.web.own_origin(headers) is not None

    def _is_allowed(self, origins: Sequence[str]) -> bool:
        return len(origins) == 1 and origins[0].strip().lower() in self.origins

    def judge_host(self, hosts: Sequence[str], local: str, peer: str) -> Refusal | None:
        """A name that an attacker has pointed at this address (DNS rebinding) is none of ours."""
        if self.hosts is None:
            return None
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is not None and (name == local or name in LOCAL_NAMES or name in self.hosts):
            return None
        if self.web is not None and name in self.web.hosts:
            return None
        self._note(peer, f"a request for host {', '.join(hosts)[:LOGGED]!r}")
        return Refusal(403, "The Host header does not name this server; --allow-host adds names")

    def judge_upgrade(self, headers: Headers, peer: str) -> Entry | Refusal:
        """Who lets an upgrade in: the cookie of our own page, or a token, where one is asked for."""
        origins = headers.get_all("Origin")
        if self.web is not None and origins and not self._is_allowed(origins):
            visitor = self.web.upgrade(headers, self.authenticator)
            return (
                self._refused(visitor, peer) if isinstance(visitor, Denied) else Entry(visitor.grant, visitor.watches)
            )
        grant = self.judge_token(headers.get_all("Authorization"), peer)
        return grant if isinstance(grant, Refusal) else Entry(grant)

    def judge_token(self, authorization: Sequence[str], peer: str) -> Grant | Refusal | None:
        """What lets a program in: None where no token is asked for."""
        if self.authenticator is None:
            return None
        try:
            return self.authenticator.judge(authorization)
        except DeniedError as denied:
            return self._refused(Denied(str(denied)), peer)

    def judge_page(self, request: Request, has_body: bool, peer: str) -> WebAnswer | Refusal:
        """What a request for the page is answered, of which there has to be one."""
        assert self.web is not None
        answer = self.web.answer(request, has_body, self.authenticator)
        return self._refused(answer, peer) if isinstance(answer, Denied) else answer

    def _refused(self, denied: Denied, peer: str) -> Refusal:
        return Refusal(401, denied.text, self._note(peer, denied.text, hold=True))

    def judge_user(self, trusted: bool, uid: int | None, peer: str) -> Refusal | None:
        """The user at the other end; `uid` None: nobody knows."""
        if trusted or not self.own_user_only:
            return None
        who = "nobody knows which user" if uid is None else f"user {uid}"
        self._note(peer, f"a process of {who}")
        return Refusal(403, "Only the user of this server may connect; --allow-other-users lifts that")

    def enter(self) -> Refusal | None:
        """Count one more connection, whose end `leave` tells of; or refuse it for want of room."""
        self._near.look("max_connections", self.connections + 1, self.max_connections)
        if self.connections >= self.max_connections:
            self.refusals += 1
            text = f"The limit max_connections of this server, {self.max_connections}, is reached; try again later"
            return Refusal(503, text)
        self.connections += 1
        return None

    def leave(self) -> None:
        """A connection that was counted is gone."""
        self.connections -= 1

    def note_failure(self, peer: str, what: str) -> None:
        """Something else that keeps a peer out, for the log."""
        self._note(peer, what)

    def _note(self, peer: str, what: str, hold: bool = False) -> float | None:
        delay, stands_for = self.brake.fail(peer_address(peer), monotonic(), hold)
        if stands_for is not None:
            more = f" (and {stands_for - 1} more before it)" if stands_for > 1 else ""
            _log.warning("refused %s: %s%s", peer, what, more)
        return delay

    def take_over(self, rules: Admission) -> None:
        """Use the tokens, origins, hosts and limits of other rules from now on."""
        self.authenticator, self.origins, self.hosts = rules.authenticator, rules.origins, rules.hosts
        self.max_connections = rules.max_connections

    def still_admits(self, grant: Grant | None) -> bool:
        """Whether a connection that was let in by this grant would be today, as far as tokens go."""
        return self.authenticator is None or (grant is not None and self.authenticator.grants(grant))


def host_name(host: str) -> str | None:
    """The name or address in a `Host` header, without port and brackets, lower-case; None if it has none."""
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            return None
    else:
        name, _, _port = host.partition(":")
    return name.strip().lower() or None


def peer_address(peer: str) -> str:
    """The address in `IP:PORT` or `[IP]:PORT`; of a peer that has none, its description."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    host, _, port = peer.partition(":")
    return host if port.isdigit() else "local"
