"""What goes out for an http/request, and where its redirects lead."""

from __future__ import annotations

import gzip
import os
import zlib

import pytest
from backports import zstd

from actors.system.http.content_coding import CodingError, decoder_of
from actors.system.http.request import Outgoing, outgoing, redirected
from protocol.errors import InvalidParams
from protocol.http import CHUNK_BYTES, HttpRequestHeader, HttpRequestParams
from protocol.web_url import join_url, parse_url


def request(
    url: str = "http://h/a", *headers: tuple[str, ...], method: str = "GET", body: bytes | None = None
) -> Outgoing:
    fields = [HttpRequestHeader(*header) for header in headers]
    params = HttpRequestParams(method=method, url=url, headers=fields, body_base64=body, request_id="r")
    return outgoing(params, {"TOKEN": "secret", "EXEC_SERVER_TOKEN": "ours", "LINES": "a\nb", "BYTES": "\udcff"})


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("http://Host/a?b=c#d", "http://host/a?b=c"),
        ("HTTPS://h:443", "https://h/"),
        ("http://h:8080?q", "http://h:8080/?q"),
        ("http:\\\\h\\a", "http://h/a"),
        ("http:h/a", "http://h/a"),
        (" http://h/a\tb \n", "http://h/ab"),
        ("http://u:p%40@h/", "http://h/"),
        ("http://[::0001]:81/", "http://[::1]:81/"),
        ("http://h/ü é?ü'\"", "http://h/%C3%BC%20%C3%A9?%C3%BC%27%22"),
        ("http://h/%7e%2F/./b/../c", "http://h/%7e%2F/c"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_urls(text: str, sent: str) -> None:
    """A URL is sent as the client's library understood it, or a signature over it is wrong."""
    assert parse_url(text).text == sent


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope", "url is invalid: relative URL without a base"),
        ("", "url is invalid: relative URL without a base"),
        ("ftp://h/", "only supports http and https URLs, got ftp"),
        ("FILE:///etc/passwd", "only supports http and https URLs, got file"),
        ("http://", "url is invalid: empty host"),
        ("http://u@/", "url is invalid: empty host"),
        ("http://a b/", "url is invalid: invalid domain character"),
        ("http://a%41/", "url is invalid: invalid domain character"),
        ("http://h:99999/", "url is invalid: invalid port number"),
        ("http://h:-1/", "url is invalid: invalid port number"),
        ("http://h:٣/", "url is invalid: invalid port number"),
        ("http://[::1/", "url is invalid: invalid IPv6 address"),
        ("http://[::1%25eth0]/", "url is invalid: invalid IPv6 address"),
        ("http://[::1]x/", "url is invalid: invalid IPv6 address"),
        ("http://ü..example/", "url is invalid: invalid international domain name"),
    ],
)
def test_urls_that_cannot_be_sent(text: str, reason: str) -> None:
    with pytest.raises(InvalidParams) as raised:
        parse_url(text)
    assert raised.value.message == f"http/request {reason}"


def test_headers_as_they_are_sent() -> None:
    """Order, repeats and the client's own values count; what would cut the request in two is refused."""
    sent = request("http://u%20:p@h/", ("X-B", " 1 "), ("x-b", "2"), ("Content-Length", "9"), ("Accept", "a/b"))
    assert sent.headers == [
        ("authorization", "Basic dSA6cA=="),
        ("x-b", "1"),
        ("x-b", "2"),
        ("accept", "a/b"),
        ("accept-encoding", "zstd,gzip"),
    ]
    assert ("accept-encoding", "zstd,gzip") not in request("http://h/", ("Range", "bytes=0-1")).headers
    assert request("http://u:p@h/", ("Authorization", "Bearer x")).headers[0] == ("authorization", "Bearer x")
    for name, value in [("", "x"), ("a b", "x"), ("a:", "x"), ("é", "x"), ("a\r\nb", "x")]:
        with pytest.raises(InvalidParams, match="header name is invalid: invalid HTTP header name"):
            request("http://h/", (name, value))
    for value in ("a\nb", "a\rb", "a\0b", "\x7f"):
        with pytest.raises(InvalidParams, match="header value is invalid for a: failed to parse header value"):
            request("http://h/", ("a", value))
    for method in ("", "A B", "A\r\n", "é"):
        with pytest.raises(InvalidParams, match="method is invalid: invalid HTTP method"):
            request(method=method)


def test_values_from_the_environment() -> None:
    """A secret of the executor gets into a header; the server's own secrets never do."""
    assert ("x-e", "secret") in request("http://h/", ("X-E", "ignored", "TOKEN")).headers
    for variable in ("NOPE", "EXEC_SERVER_TOKEN", "NOTIFY_SOCKET", ""):
        with pytest.raises(InvalidParams, match=f"header X-E requires executor environment variable {variable}"):
            request("http://h/", ("X-E", "", variable))
    for variable in ("LINES", "BYTES"):
        with pytest.raises(InvalidParams, match="header value is invalid for X-E"):
            request("http://h/", ("X-E", "", variable))


SECRETS = [("Authorization", "a"), ("Cookie", "c"), ("X-E", "", "TOKEN"), ("X-Plain", "p"), ("Host", "other")]


def redirect(url: str, location: str, status: int = 302, **how: object) -> Outgoing:
    following = redirected(request(url, *SECRETS, **how), status, location)  # type: ignore[arg-type]
    assert following is not None
    return following


@pytest.mark.parametrize("location", ["http://h2/", "http://h:81/", "https://h/", "//h2/x"])
def test_secrets_stay_with_their_host(location: str) -> None:
    """A redirect to somewhere else would give away the client's tokens, and those of the executor."""
    following = redirect("http://h/", location)
    assert {name for name, _ in following.headers} == {"x-plain", "accept", "accept-encoding", "referer"}


def test_redirects_to_the_same_host() -> None:
    following = redirect("http://u:p@h/a/b?c#d", "../e?f")
    assert following.url.text == "http://h/e?f"
    assert dict(following.headers)["referer"] == "http://h/a/b?c"
    assert {"authorization", "cookie", "x-e", "host"} <= dict(following.headers).keys()
    again = redirected(following, 302, "/g")
    assert again is not None
    assert [value for name, value in again.headers if name == "referer"] == ["http://h/e?f"]
    assert "referer" not in dict(redirect("https://h/", "http://h2/").headers)


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (302, "PUT", "PUT"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (301, "HEAD", "HEAD"),
    ],
)
def test_methods_of_redirects(status: int, method: str, then: str) -> None:
    """A form that is sent twice is an order that is made twice."""
    first = request("http://h/", ("Content-Type", "a/b"), method=method, body=b"x")
    following = redirected(first, status, "/next")
    assert following is not None and following.method == then
    assert (following.body is None, "content-type" in dict(following.headers)) == ((then == "GET"), then != "GET")


NOWHERE = [(302, None), (302, "ftp://h/"), (302, "http://[/"), (304, "/x"), (200, "/x")]


@pytest.mark.parametrize(("status", "location"), NOWHERE)
def test_what_is_no_redirect(status: int, location: str | None) -> None:
    """It is shown to the client, who can do more with it than with an error."""
    assert redirected(request(), status, location) is None


def test_joined_urls() -> None:
    base = parse_url("http://h/a/b")
    for location, expected in [("?q", "http://h/a/b?q"), ("", "http://h/a/b"), ("c d", "http://h/a/c%20d")]:
        joined = join_url(base, location)
        assert joined is not None and joined.text == expected


CODINGS = {"gzip": gzip.compress, "zstd": zstd.compress}
BODIES = [b"", b"a", os.urandom(200_000), bytes(1_000_000), bytes(CHUNK_BYTES), os.urandom(CHUNK_BYTES)]


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize("step", [7, 4096, 1 << 30])
def test_coded_bodies(coding: str, body: bytes, step: int) -> None:
    """Whatever the network cuts it into, also in two members, and never more than a chunk at a time."""
    coded = CODINGS[coding](body) + CODINGS[coding](b"tail")
    decoder = decoder_of(coding.upper())
    pieces = [piece for start in range(0, len(coded), step) for piece in decoder.decode(coded[start : start + step])]
    decoder.finish()
    assert b"".join(pieces) == body + b"tail"
    assert all(0 < len(piece) <= CHUNK_BYTES for piece in pieces)


@pytest.mark.parametrize("coding", CODINGS)
def test_coded_bodies_that_are_broken(coding: str) -> None:
    """Half a body must not pass for a whole one."""
    whole = CODINGS[coding](b"x" * 1000)
    decoder = decoder_of(coding)
    list(decoder.decode(whole[:-2]))
    with pytest.raises(CodingError, match="too early"):
        decoder.finish()
    with pytest.raises(CodingError, match=f"not {coding}"):
        list(decoder_of(coding).decode(b"neither nor"))
    with pytest.raises(CodingError):
        list(decoder_of(coding).decode(whole + b"garbage"))


def test_a_zstd_window_is_bounded() -> None:
    """A frame of some bytes could ask for gigabytes of memory."""
    greedy = zstd.compress(os.urandom(1 << 20) * 20, options={zstd.CompressionParameter.window_log: 25})
    with pytest.raises(CodingError, match="memory"):
        list(decoder_of("zstd").decode(greedy))


def test_other_codings_pass() -> None:
    coded = zlib.compress(bytes(100_000)) * 1000
    assert b"".join(decoder_of("deflate").decode(coded)) == coded
