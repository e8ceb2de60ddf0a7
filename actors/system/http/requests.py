"""HTTP requests on aiohttp. Only the thread of actors.system.http.client imports this."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from actors.system.child.environment import server_environment
from actors.system.http.content_coding import CodingError, decoder_of, is_decoded
from actors.system.http.exchange import (
    Exchange,
    ResponseChunk,
    ResponseEnded,
    ResponseFailed,
    ResponseHead,
    ResponseWhole,
)
from actors.system.http.request import MAX_REDIRECTS, Outgoing, outgoing, redirected
from actors.system.limit_warnings import LimitWarnings
from protocol.errors import ExecServerError, HttpError, HttpErrorKind, LimitReached
from protocol.http import CHUNK_BYTES, HttpHeader, HttpRequestResult
from protocol.web_url import WebUrl

log = logging.getLogger(__name__)

CHUNKS_OUT = 16
"""Chunks of a session that may be on their way to its client: 1 MiB."""
KEPT_BODIES = 64 << 20
"""Bytes of whole bodies that a session keeps before all but its oldest exchange wait."""
CONNECT_S = 30.0
"""How long a connection may take, in seconds."""
LOOKUPS_AT_ONCE = 16
MAX_FIELDS = 512
MAX_FIELD_BYTES = 32 * 1024
MAX_HEAD_BYTES = 256 * 1024
"""All header fields of a response together."""
_NOT_OURS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_BODILESS = frozenset((204, 304))


class _BodyBroken(Exception):
    """A body that ends before it is whole; why, and the kind of error."""

    def __init__(self, reason: str, kind: HttpErrorKind = "httpBodyFailed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind


class _Method(str):
    """A method that is sent as it is: the library would write `get` as `GET`."""

    __slots__ = ()

    def upper(self) -> str:
        return self


class _Resolver(AbstractResolver):
    """getaddrinfo(3) in threads that nobody waits for: it can take half a minute, and the server may end meanwhile."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        async with self._free:
            found: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
            threading.Thread(target=_look_up, args=(found, host, port, family), daemon=True).start()
            infos = await found
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address[0], port=address[1], family=kind, proto=proto, flags=flags)
            for kind, _, proto, _, address in infos
        ]

    async def close(self) -> None:
        pass


def _look_up(found: asyncio.Future[list[Any]], host: str, port: int, family: int) -> None:
    try:
        infos = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        error = None
    except OSError as failure:
        infos, error = [], failure

    def settle() -> None:
        if found.done():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(infos)

    try:
        found.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the loop has ended


def open_session() -> aiohttp.ClientSession:
    """The connections of all sessions. No cookies, no .netrc, no headers of the library's own."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, resolver=_Resolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        auto_decompress=False,
        skip_auto_headers=_NOT_OURS,
        read_bufsize=CHUNK_BYTES,
        max_line_size=MAX_FIELD_BYTES,
        max_field_size=MAX_FIELD_BYTES,
        max_headers=MAX_FIELDS,
    )


class AllBodies:
    """Bytes of whole bodies that all sessions keep. Who finds no room fails: the room may be held by a client that does
    not read, and others cannot wait for it."""

    def __init__(self) -> None:
        self._bytes = 0
        self._near = LimitWarnings()

    def add(self, size: int, maximum: int) -> None:
        """Raises LimitReached, and then nothing is added."""
        self._near.look("http_bodies_total", self._bytes + size, maximum)
        if self._bytes + size > maximum:
            raise LimitReached("http_bodies_total", maximum, "ask for the body with streamResponse, or try again later")
        self._bytes += size

    def remove(self, size: int) -> None:
        self._bytes -= size


class _KeptBodies:
    """Bytes of whole bodies that have not been passed on. Over the limit only the oldest exchange goes on, so the
    sum stays below the limit and one body, and no exchange waits for another that waits for it.
    """

    def __init__(self, of_all: AllBodies) -> None:
        self._of_all = of_all
        self._sizes: dict[int, int] = {}
        self._waiters: list[asyncio.Future[None]] = []

    async def add(self, number: int, size: int, maximum: int) -> None:
        """Wait until so many more bytes may be kept. Raises LimitReached where all sessions together have `maximum`."""
        self._sizes.setdefault(number, 0)
        while sum(self._sizes.values()) + size > KEPT_BODIES and next(iter(self._sizes)) != number:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._of_all.add(size, maximum)
        self._sizes[number] += size

    def clear(self) -> None:
        for number in list(self._sizes):
            self.remove(number)

    def remove(self, number: int) -> None:
        size = self._sizes.pop(number, None)
        if size is not None:
            self._of_all.remove(size)
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


class Exchanges:
    """The requests of one session that are under way; `exchange` says what is told."""

    def __init__(self, session: aiohttp.ClientSession, bodies: AllBodies, tell: Callable[[Any], None]) -> None:
        self._session = session
        self._tell = tell
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._chunks = asyncio.Semaphore(CHUNKS_OUT)
        self._kept = _KeptBodies(bodies)

    def begin(self, exchange: Exchange) -> None:
        self._tasks[exchange.number] = asyncio.get_running_loop().create_task(self._run(exchange))

    def abort(self, number: int) -> None:
        self._kept.remove(number)
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def abort_all(self) -> None:
        for number in list(self._tasks):
            self.abort(number)
        self._kept.clear()

    def chunk_passed(self) -> None:
        self._chunks.release()

    def body_passed(self, number: int) -> None:
        self._kept.remove(number)

    async def _run(self, exchange: Exchange) -> None:
        number, head_told = exchange.number, False
        try:
            response, headers = await self._response(exchange)
            try:
                if exchange.params.stream_response:
                    self._tell(ResponseHead(number, response.status, headers))
                    head_told = True
                    await self._stream(exchange, response)
                    self._tell(ResponseEnded(number, None))
                else:
                    body = await self._body(exchange, response)
                    self._tell(ResponseWhole(number, HttpRequestResult(response.status, headers, body)))
            finally:
                response.close()
        except Exception as error:
            self._kept.remove(number)
            self._tell(_end(number, error, head_told))
        finally:
            self._tasks.pop(number, None)

    # -- the response -------------------------------------------------------------------------------------------

    async def _response(self, exchange: Exchange) -> tuple[aiohttp.ClientResponse, list[HttpHeader]]:
        """The last response of a chain of redirects, its body unread. Raises HttpError and InvalidParams."""
        request = outgoing(exchange.params, server_environment())
        if exchange.params.timeout_ms == 0:
            raise HttpError("httpTimeout", "http/request failed: route-aware request timed out")
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(request, exchange.deadline)
            try:
                following = None
                if exchange.params.redirect_policy != "stop":
                    following = redirected(request, response.status, _location(response))
                if following is None:
                    return response, _headers(response, request.url)
            except BaseException:
                response.close()
                raise
            response.close()
            request = following
        raise HttpError("tooManyRedirects", "http/request failed: too many redirects")

    async def _send(self, request: Outgoing, deadline: float) -> aiohttp.ClientResponse:
        proxy = proxy_of(request.url)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._session.request(
                    _Method(request.method),
                    URL(request.url.text, encoded=True),
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                    proxy=proxy,
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            kind, reason = _reason(error)
            text = f"http/request failed: error sending request for url ({request.url.text})"
            raise HttpError(kind, f"{text}: {reason}") from None

    # -- the body -----------------------------------------------------------------------------------------------

    async def _stream(self, exchange: Exchange, response: aiohttp.ClientResponse) -> None:
        deadline = None if exchange.params.timeout_ms is None else exchange.deadline
        async for piece in _pieces(response, deadline):
            try:
                async with asyncio.timeout_at(deadline):
                    await self._chunks.acquire()
            except TimeoutError:
                raise _timed_out() from None
            self._tell(ResponseChunk(exchange.number, piece))

    async def _body(self, exchange: Exchange, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()  # grows without a copy that would hold up other threads
        async for piece in _pieces(response, exchange.deadline):
            if len(body) + len(piece) > exchange.max_body:
                text = f"the body has more than {exchange.max_body} bytes; ask for it with streamResponse"
                raise _BodyBroken(text, "bodyTooLarge")
            try:
                async with asyncio.timeout_at(exchange.deadline):
                    await self._kept.add(exchange.number, len(piece), exchange.max_bodies)
            except TimeoutError:
                raise _timed_out() from None
            body += piece
        return body  # type: ignore[return-value]  # nobody changes it any more


def _end(number: int, error: Exception, head_told: bool) -> ResponseEnded | ResponseFailed:
    """What is told of an exchange that failed."""
    match error:
        case _BodyBroken():
            reason, kind = error.reason, error.kind
        case ExecServerError() if not head_told:
            return ResponseFailed(number, error)
        case _:
            # Its text may have what only the client may know.
            log.error("an http/request failed inside the server: %s", type(error).__name__)
            reason, kind = f"{type(error).__name__} inside the server", "httpFailed"
    if head_told:
        return ResponseEnded(number, reason)
    return ResponseFailed(number, HttpError(kind, f"failed to read http/request response body: {reason}"))


async def _pieces(response: aiohttp.ClientResponse, deadline: float | None) -> AsyncIterator[bytes]:
    """The decoded body in pieces of at most CHUNK_BYTES. Raises _BodyBroken."""
    decoder = decoder_of(_coding(response))
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                data = await response.content.readany()
            if not data:
                break
            for piece in decoder.decode(data):
                yield piece
        decoder.finish()
    except TimeoutError:
        raise _timed_out() from None
    except CodingError as error:
        raise _BodyBroken(f"error decoding response body: {error}") from None
    except (aiohttp.ClientError, OSError) as error:
        raise _BodyBroken(f"error decoding response body: {_reason(error)[1]}") from None


def _timed_out() -> _BodyBroken:
    return _BodyBroken("error decoding response body: timed out", "httpTimeout")


def _location(response: aiohttp.ClientResponse) -> str | None:
    values = [value for name, value in response.raw_headers if name.lower() == b"location"]
    return _text(values[0]) if values else None


def _coding(response: aiohttp.ClientResponse) -> str:
    """The coding that is to be taken away; several, or one of no body, are not."""
    values = [_text(value) for name, value in response.raw_headers if name.lower() == b"content-encoding"]
    bodiless = response.method == "HEAD" or response.status in _BODILESS
    return values[0] if len(values) == 1 and not bodiless else ""


def _headers(response: aiohttp.ClientResponse, url: WebUrl) -> list[HttpHeader]:
    """Without those that are not true of a decoded body."""
    if sum(len(name) + len(value) for name, value in response.raw_headers) > MAX_HEAD_BYTES:
        text = f"http/request failed: error sending request for url ({url.text})"
        raise HttpError("httpFailed", f"{text}: the header fields take more than {MAX_HEAD_BYTES} bytes")
    untrue = (b"content-encoding", b"content-length") if is_decoded(_coding(response)) else ()
    return [
        HttpHeader(_text(name).lower(), _text(value))
        for name, value in response.raw_headers
        if name.lower() not in untrue
    ]


def _text(value: bytes) -> str:
    """A header field as text: UTF-8, or else ISO 8859-1 (RFC 9110, section 5.5)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def proxy_of(url: WebUrl) -> URL | None:
    """The proxy of this process's environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) for a URL.

    Raises HttpError for one that is not spoken to by HTTP.
    """
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    host = url.host.strip("[]")
    if not proxy or urllib.request.proxy_bypass_environment(f"{host}:{url.port}", proxies):  # type: ignore[attr-defined]
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise HttpError("httpConnectFailed", "http/request failed: the proxy of the environment is not an http:// one")
    return URL(proxy)


def _reason(error: Exception) -> tuple[HttpErrorKind, str]:
    """The kind of a failure and a text without any URL, since that of a proxy may hold a password."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "the certificate is not valid"
            return "httpTlsFailed", str(reason)
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "httpTlsFailed", f"TLS: {getattr(error, 'reason', None) or 'the handshake failed'}"
        case aiohttp.ConnectionTimeoutError():
            return "httpConnectFailed", f"no connection in {CONNECT_S:.0f} seconds"
        case TimeoutError():
            return "httpTimeout", "timed out"
        case aiohttp.ClientConnectorError():
            return "httpConnectFailed", _os_reason(error.os_error)
        case aiohttp.ClientHttpProxyError():
            return "httpConnectFailed", f"the proxy answered {error.status}"
        case aiohttp.ServerDisconnectedError():
            return "httpFailed", "the server closed the connection"
        case aiohttp.ClientPayloadError():
            return "httpFailed", "the connection ended before the body did"
        case aiohttp.ClientResponseError():
            return "httpFailed", "the response is not HTTP: " + " ".join(error.message.split())[:200]
        case OSError():
            return "httpFailed", _os_reason(error)
    return "httpFailed", type(error).__name__


def _os_reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno or error.errno < 0:
        return error.strerror or str(error.args[-1] if error.args else error)
    return f"{os.strerror(error.errno)} (os error {error.errno})"
