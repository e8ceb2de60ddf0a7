"""http/request against real web servers, good and bad ones: what a client of the machine's network is told."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support.client import RpcError, connected, expect_error, session
from tests.support.program import ROOT, Program, command, program
from tests.support.web import web_server

pytestmark = pytest.mark.anyio


def echoed(result: dict[str, Any]) -> dict[str, Any]:
    """What the server's page `/echo` saw."""
    told: dict[str, Any] = json.loads(result["body"])
    return told


async def test_a_request_and_its_response(server: Program) -> None:
    """Method, header fields with order and repeats, body there; status, fields and body back."""
    async with web_server() as web, session(server.url) as client:
        fields = [("X-Z", "1"), ("x-z", "2"), ("Host", "elsewhere"), ("X-U", "é")]
        result = await client.request(web.url("/echo?q=%41"), *fields, method="Post", bodyBase64="aGk=")
        assert result["status"] == 200
        names = [(each["name"], each["value"]) for each in result["headers"]]
        assert names[:3] == [("x-a", "1"), ("set-cookie", "a=1"), ("x-a", "2")]
        told = echoed(result)
        assert (told["method"], told["target"], told["body"]) == ("Post", "/echo?q=%41", "hi")
        seen = dict(told["fields"])
        assert [value for name, value in told["fields"] if name.lower() == "x-z"] == ["1", "2"]
        assert {name.lower() for name in seen} == {"host", "x-z", "x-u", "accept", "accept-encoding", "content-length"}
        again = echoed(await client.request(web.url("/echo")))
        assert "cookie" not in {name.lower() for name, _ in again["fields"]}
        assert web.opened == 1, "the connection is used again"


async def test_responses_without_a_body(server: Program) -> None:
    async with web_server() as web, session(server.url) as client:
        head = await client.request(web.url("/echo"), method="HEAD")
        assert (head["status"], head["body"]) == (200, b"")
        assert int({each["name"]: each["value"] for each in head["headers"]}["content-length"]) > 0
        assert (await client.request(web.url("/status?code=204")))["status"] == 204
        assert (await client.request(web.url("/status?code=304")))["status"] == 304
        missing = await client.request(web.url("/nothing-here"))
        assert (missing["status"], missing["body"]) == (404, b"no such page")
        _, body = await client.stream("s", web.url("/status?code=204"))
        assert (await body.ended(), len(body.pieces)) == (b"", 1)


async def test_header_fields_that_are_not_utf8(server: Program) -> None:
    async with web_server() as web, session(server.url) as client:
        fields = (await client.request(web.url("/latin")))["headers"]
        assert fields[:2] == [{"name": "x-l", "value": "é"}, {"name": "x-u", "value": "é"}]


async def test_redirects(server: Program) -> None:
    """Followed up to ten times, with what was asked; or not at all."""
    async with web_server() as web, session(server.url) as client:
        result = await client.request(web.url("/hop?n=10"), ("X-Z", "1"))
        fields = {name.lower(): value for name, value in echoed(result)["fields"]}
        assert (fields["referer"], fields["x-z"]) == (web.url("/hop?n=1"), "1")
        for path in ("/hop?n=11", "/loop"):
            error = await expect_error(client.request(web.url(path)))
            assert (error.code, error.message) == (-32603, "http/request failed: too many redirects")
            assert error.data["kind"] == "tooManyRedirects"
        stopped = await client.request(web.url("/loop"), redirectPolicy="stop")
        assert (stopped["status"], stopped["headers"][0]["name"]) == (302, "location")
        nowhere = await client.request(web.url("/redirect?to=ftp://h/"))
        assert (nowhere["status"], nowhere["body"]) == (302, b"elsewhere")


async def test_a_redirect_to_another_host_gets_no_secrets(server: Program) -> None:
    async with web_server() as web, web_server() as other, session(server.url) as client:
        url = web.url(f"/redirect?status=307&to={other.url('/echo')}").replace("//", "//u:p@", 1)
        await client.request(url, ("Cookie", "c"), ("X-Z", "1"), method="POST", bodyBase64="aGk=")
        assert web.seen[0].values("authorization") == ["Basic dTpw"]
        assert other.seen[0].body == b"hi"
        assert [other.seen[0].values(name) for name in ("authorization", "cookie", "x-z")] == [[], [], ["1"]]


FAULTS = {
    "/abort": ("httpBodyFailed", "failed to read http/request response body: error decoding response body"),
    "/coded?coding=gzip&n=1000&cut=3": ("httpBodyFailed", "failed to read http/request response body: error decoding"),
    "/coded?coding=gzip&n=1000&as=zstd": ("httpBodyFailed", "failed to read http/request response body: error"),
    "/hangup": ("httpFailed", "http/request failed: error sending request for url (URL): the server closed"),
    "/garbage": ("httpFailed", "http/request failed: error sending request for url (URL): the response is not HTTP"),
    "/bad_chunk": ("httpFailed", "http/request failed: error sending request for url (URL)"),
    "/fields?n=1000": ("httpFailed", "http/request failed: error sending request for url (URL)"),
    "/fields?n=500&size=1000": ("httpFailed", "http/request failed: error sending request for url (URL)"),
    "/fields?n=1&size=40000": ("httpFailed", "http/request failed: error sending request for url (URL)"),
}


@pytest.mark.parametrize("path", FAULTS)
async def test_servers_that_do_wrong(server: Program, path: str) -> None:
    """Each gets its error and costs nobody else anything: the next request is answered."""
    kind, text = FAULTS[path]
    async with web_server() as web, session(server.url) as client:
        url = web.url(path)
        error = await expect_error(client.request(url.replace("//", "//user:geheim@")))
        assert (error.code, error.data["kind"]) == (-32603, kind)
        assert error.message.startswith(text.replace("URL", url))
        assert "\n" not in error.message and "geheim" not in error.message
        assert (await client.request(web.url("/hello")))["body"] == b"hello "


@pytest.mark.parametrize("path", ["/never", "/slow_head", "/drip", "/endless"])
async def test_servers_that_take_their_time(server: Program, path: str) -> None:
    """`timeoutMs` is for the whole of it, so that no server can hold a client for longer."""
    async with web_server() as web, session(server.url) as client:
        limit = {"/endless": 1}.get(path, 200)
        error = await expect_error(client.request(web.url(path), timeoutMs=limit))
        assert (error.code, error.data["kind"]) == (-32603, "httpTimeout")
        await web.until(lambda: not web.connections)


async def test_a_streamed_body_that_times_out(server: Program) -> None:
    async with web_server() as web, session(server.url) as client:
        error = await expect_error(client.request(web.url("/never"), timeoutMs=0))
        assert error.message == "http/request failed: route-aware request timed out"
        _, body = await client.stream("s", web.url("/drip"), timeoutMs=300)
        assert (await body.ended(), body.error) == (b"x", "error decoding response body: timed out")


async def test_places_that_cannot_be_reached(server: Program) -> None:
    async with session(server.url) as client:
        refused = await expect_error(client.request("http://u:geheim@127.0.0.1:1/#x"))
        text = "http/request failed: error sending request for url (http://127.0.0.1:1/): Connection refused"
        assert refused.message.startswith(text)
        assert refused.data["kind"] == "httpConnectFailed"
        unknown = await expect_error(client.request("http://no-such-host.invalid/"))
        assert unknown.data["kind"] == "httpConnectFailed"


async def test_tls(server: Program, tmp_path: Path) -> None:
    """A certificate that nobody vouches for is refused; one of a trusted authority is not."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with web_server(context) as web:
        async with session(server.url) as client:
            error = await expect_error(client.request(web.url("/hello")))
            assert error.data["kind"] == "httpTlsFailed"
            assert web.seen == [], "not a byte of the request before the certificate is known"
        with program(env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "ca.pem")}) as trusting:
            async with session(trusting.url) as client:
                assert (await client.request(web.url("/hello")))["body"] == b"hello "
                plain = web.url("/hello").replace("https", "http")
                assert (await expect_error(client.request(plain))).data["kind"] == "httpFailed"
    async with web_server() as web, session(server.url) as client:
        error = await expect_error(client.request(web.url("/hello").replace("http", "https")))
        assert error.data["kind"] == "httpTlsFailed"


async def test_values_and_proxies_from_the_environment(tmp_path: Path) -> None:
    """The machine's proxy is used, but for those hosts that need none; its secrets go where they are meant to."""
    async with web_server() as web:
        proxy = web.base.replace("//", "//px:word@")
        environ = {**os.environ, "HTTP_PROXY": proxy, "NO_PROXY": "127.0.0.1", "API_KEY": "secret"}
        environ["EXEC_SERVER_LOG_LEVEL"] = "debug"
        with (tmp_path / "log").open("w") as log_file, program(env=environ, stderr=log_file) as server:
            async with session(server.url) as client:
                header = {"name": "X-Key", "value": "", "valueEnvVar": "API_KEY"}
                await client.request(web.url("/echo"), headers=[header])
                assert web.seen[0].values("x-key") == ["secret"]
                await client.request("http://somewhere.invalid/echo")
                assert web.seen[1].target == "http://somewhere.invalid/echo"
                assert web.seen[1].values("proxy-authorization") == ["Basic cHg6d29yZA=="]
                for variable in ("EXEC_SERVER_LOG_LEVEL", "NOPE"):
                    header["valueEnvVar"] = variable
                    error = await expect_error(client.request(web.url("/echo"), headers=[header]))
                    text = f"http/request header X-Key requires executor environment variable {variable}"
                    assert (error.code, error.message) == (-32602, text)
                await expect_error(client.request(web.url("/hangup").replace("//", "//u:word@")))
    log = (tmp_path / "log").read_text()
    assert '"level":"debug"' in log
    assert "secret" not in log and "word" not in log and "hangup" not in log


async def test_bodies_that_are_too_large() -> None:
    """Plain or from a bomb of some kilobytes, a body stops at the limit; streamed, there is none."""
    with program("--max-http-body", "1000000") as server:
        async with web_server() as web, session(server.url) as client:
            for path in (
                "/big?n=1000001",
                "/endless",
                "/coded?coding=gzip&n=50000000",
                "/coded?coding=zstd&n=50000000",
            ):
                error = await expect_error(client.request(web.url(path)))
                assert (error.code, error.data["kind"]) == (-32603, "bodyTooLarge")
                assert "1000000 bytes" in error.message and "streamResponse" in error.message
            assert len((await client.request(web.url("/big?n=1000000")))["body"]) == 1_000_000
            _, body = await client.stream("s", web.url("/coded?coding=gzip&n=5000000"))
            assert (await body.ended(), body.error) == (bytes(5_000_000), None)
        async with connected(server.url) as client, web_server() as web:
            await client.initialize(maxMessageBytes=300_000)
            for size in (900_000, 290_000):  # the latter is too large as base64
                error = await expect_error(client.request(web.url(f"/big?n={size}")))
                assert error.data["kind"] == "bodyTooLarge"
            assert len((await client.request(web.url("/big?n=200000")))["body"]) == 200_000


async def test_large_bodies_come_whole(server: Program) -> None:
    async with web_server() as web, session(server.url) as client:
        whole = await client.request(web.url("/big?n=20000000"))
        assert whole["body"] == (bytes(range(256)) * 78125)
        _, body = await client.stream("s", web.url("/big?n=20000000"))
        assert await body.ended() == whole["body"]


async def test_streamed_bodies(server: Program) -> None:
    """Several at once, each under its own id with its own numbers, and the id is free again at the end."""
    async with web_server() as web, session(server.url) as client:
        result, body = await client.stream("c", web.url("/chunked"))
        assert result["bodyBase64"] == ""
        assert [each["value"] for each in result["headers"] if each["name"] == "x-dup"] == ["a", "b"]
        assert (await body.ended(), body.error) == (b"one;two;three", None)
        _, broken = await client.stream("c", web.url("/abort"))
        assert await broken.ended() == b"part"
        assert (broken.error or "").startswith("error decoding response body")
        streams = [await client.stream(f"s{n}", web.url(f"/big?n={n * 100_000}")) for n in range(8)]
        for n, (_, stream) in enumerate(streams):
            assert len(await stream.ended()) == n * 100_000
        await client.stream("open", web.url("/drip"))
        error = await expect_error(client.stream("open", web.url("/hello")))
        text = "http/request streamResponse requestId `open` is already active"
        assert (error.code, error.message) == (-32602, text)
        same = await client.request(web.url("/hello"), requestId="open")
        assert same["body"] == b"hello ", "only streams have the name to themselves"


async def test_a_failed_stream_frees_its_id(server: Program) -> None:
    async with web_server() as web, session(server.url) as client:
        for _ in range(2):
            error = await expect_error(client.request("http://127.0.0.1:1/", requestId="s", streamResponse=True))
            assert error.data["kind"] == "httpConnectFailed"
        _, body = await client.stream("s", web.url("/hello"))
        assert await body.ended() == b"hello "


async def test_slow_servers_hold_up_nobody(server: Program) -> None:
    """Upstream answers one request after another; here a process is started meanwhile, and others are served."""
    async with web_server() as web, session(server.url) as client:
        slow = [
            await client.send("http/request", method="GET", url=web.url("/never"), requestId="n") for _ in range(32)
        ]
        await web.until(lambda: len(web.seen) == 32)
        waiting = await client.send("http/request", method="GET", url=web.url("/hello"), requestId="w")
        assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
        assert not waiting.done() and len(web.seen) == 32
        async with session(server.url) as other:
            assert (await other.request(web.url("/hello")))["status"] == 200
        await client.abort()
        await web.until(lambda: web.connections == 1)  # that of the other session is kept for its next request
        assert all(each.done() for each in slow), "the client's own view of it"
        assert [each.target for each in web.seen].count("/hello") == 1, "what had not begun never begins"


@pytest.mark.parametrize("path", ["/never", "/drip", "/endless"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_lost_connection_ends_its_requests(server: Program, path: str, streamed: bool) -> None:
    """Nobody hears of them any more: web servers must not be left with dead readers."""
    async with web_server() as web:
        async with connected(server.url) as client:
            await client.initialize()
            await client.send("http/request", method="GET", url=web.url(path), requestId="r", streamResponse=streamed)
            await web.until(lambda: web.connections == 1)
            await client.abort()
            session_id = client.session_id
        await web.until(lambda: not web.connections)
        async with connected(server.url) as client:
            await client.initialize(resume=session_id)
            _, body = await client.stream("r", web.url("/hello"))
            assert await body.ended() == b"hello ", "the name of the lost stream is free"


async def test_the_thread_ends_with_its_last_session() -> None:
    """Connections, descriptors and the thread are given back, and made anew when they are needed again."""
    with program("--session-ttl", "0") as server:
        async with session(server.url):
            pass  # the first connection opens what stays
        before = server.load()
        async with web_server() as web:
            for _ in range(2):
                async with session(server.url) as client:
                    await client.request(web.url("/hello"))
                    await client.stream("s", web.url("/drip"))
                    assert web.connections > 0
                await web.until(lambda: not web.connections)
                await server.falls_to(before)


async def test_the_server_ends_in_the_middle_of_it() -> None:
    """SIGTERM is not held up by a server that does not answer or a body that does not end."""
    async with web_server() as web:
        with program() as server:
            async with connected(server.url) as client:
                await client.initialize()
                await client.send("http/request", method="GET", url=web.url("/never"), requestId="r")
                await client.stream("s", web.url("/endless"))
                assert await asyncio.to_thread(server.stop) == 0
        await web.until(lambda: not web.connections)


async def test_the_end_of_the_input_on_stdio() -> None:
    """`printf … | exec-server` gets an answer to each request, if need be that there is none."""
    async with web_server() as web:
        ask = {"method": "GET", "requestId": "r"}
        messages = [
            {"id": 1, "method": "initialize", "params": {"clientName": "pipe"}},
            {"method": "initialized"},
            {"id": 2, "method": "http/request", "params": {**ask, "url": web.url("/never")}},
            {"id": 3, "method": "http/request", "params": {**ask, "url": web.url("/hello")}},
        ]
        process = await asyncio.create_subprocess_exec(*command(), stdin=-1, stdout=-1, cwd=ROOT)
        text = "".join(json.dumps(message) + "\n" for message in messages)
        output, _ = await process.communicate(text.encode())
        answers = {answer["id"]: answer for answer in map(json.loads, output.splitlines())}
        assert answers[3]["result"]["status"] == 200
        assert answers[2]["error"]["data"] == {"kind": "httpTimeout"}
        assert process.returncode == 0


async def test_before_the_handshake(server: Program) -> None:
    """The wording of docs/protocol.md, "initialize", which clients match."""
    async with connected(server.url) as client:
        error = await expect_error(client.request("http://127.0.0.1:1/"))
        assert (error.code, error.message) == (-32600, "client must call initialize before using http methods")
        error = await expect_error(client.call("http/request", method="GET", url="x"))
        assert (error.code, error.message) == (-32602, "missing field `requestId`")
        error = await expect_error(client.request("http://h/", redirectPolicy="no"))
        assert error.code == -32602 and "redirectPolicy" in error.message
        with pytest.raises(RpcError):
            await client.request("http://h/", timeoutMs=1.5)
