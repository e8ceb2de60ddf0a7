"""Who gets in by the page, tried the wrong way. Lost: a shell for whoever makes the user's browser open a page."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.web_page.server import PageServer, call, initialize, page_server


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with page_server() as running:
        yield running


@pytest.fixture(scope="module")
def cookie(server: PageServer) -> str:
    """That of a page which came in as its user meant it to."""
    given = server.log_in(server.code)
    assert given is not None
    return given


def refused(server: PageServer, origin: str | None = None, cookie: str | None = None, **headers: str) -> int:
    """The status that an upgrade is refused with; 101 if it is not."""
    given = {"Origin": origin, "Cookie": cookie}
    return server.upgrade_status(**{name: value for name, value in given.items() if value is not None}, **headers)


def test_a_page_with_its_cookie_and_our_origin_gets_a_shell(server: PageServer, cookie: str) -> None:
    with server.upgrade(server.origin, cookie) as socket:
        assert initialize(socket)["sessionId"]
        assert call(socket, "environment/status") == {"status": "ready"}


def test_a_code_is_good_once(server: PageServer, cookie: str) -> None:
    """Somebody who reads it from a terminal, a log or a history afterwards."""
    assert server.log_in(server.code) is None
    again = server.post("/web/code", cookie)["code"]
    assert server.log_in(again) is not None
    assert server.log_in(again) is None


@pytest.mark.parametrize("secret", ["", "x", "0" * 43, "\xff" * 20])
def test_a_guessed_code_is_refused(server: PageServer, secret: str) -> None:
    assert server.log_in(secret) is None
    assert server.log_in(secret, kind="Share") is None
    assert server.log_in(secret, kind="Bearer") is None


def test_without_its_cookie_our_own_page_gets_nothing(server: PageServer, cookie: str) -> None:
    assert refused(server, origin=server.origin) == 401
    name = cookie.partition("=")[0]
    for wrong in (f"{name}=", f"{name}={'0' * 43}", f"other={cookie.partition('=')[2]}", f"{name}x={cookie}", ";;=;"):
        assert refused(server, origin=server.origin, cookie=wrong) == 401, wrong


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "file://",
        "https://{host}",
        "http://{host}.evil.example",
        "http://evil.example/{host}",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "http://user@{host}",
        "{host}",
    ],
)
def test_another_origin_is_refused_even_with_the_cookie(server: PageServer, cookie: str, origin: str) -> None:
    """A page of another port, or of another scheme, is another page."""
    origin = origin.format(host=server.host, port=server.port)
    assert refused(server, origin=origin, cookie=cookie) == 403
    assert server.log_in(server.code, origin=origin) is None
    for path in ("/", "/web/session", "/page/main.js"):
        assert server.request("GET", path, {"Origin": origin, "Cookie": cookie})[0].status == 403


def test_a_cookie_is_good_at_its_own_host_alone(server: PageServer, cookie: str) -> None:
    """A cookie that was stolen, or that the browser sends to every port of a host."""
    other = f"localhost:{server.port}"
    assert refused(server, origin=f"http://{other}", cookie=cookie, Host=other) == 401
    response, body = server.request("GET", "/web/session", {"Host": other, "Cookie": cookie})
    assert (response.status, json.loads(body)["signedIn"]) == (200, False)


def test_a_name_that_was_pointed_at_us_is_refused(server: PageServer, cookie: str) -> None:
    """DNS rebinding: for the browser the page is its own server."""
    host = f"evil.example:{server.port}"
    for path in ("/", "/web/session"):
        assert server.request("GET", path, {"Host": host, "Cookie": cookie})[0].status == 403
    assert server.log_in(server.code, origin=f"http://{host}", Host=host) is None
    assert refused(server, origin=f"http://{host}", cookie=cookie, Host=host) == 403


def test_a_form_of_another_page_cannot_sign_in_or_out(server: PageServer, cookie: str) -> None:
    for path in ("/web/login", "/web/logout", "/web/code", "/web/share"):
        assert server.request("POST", path, {"Cookie": cookie})[0].status == 403, path
        evil = {"Cookie": cookie, "Origin": "http://evil.example"}
        assert server.request("POST", path, evil)[0].status == 403, path
    with server.upgrade(server.origin, cookie):
        pass


def test_a_cookie_that_was_given_back_is_good_no_more(server: PageServer, cookie: str) -> None:
    other = server.log_in(server.post("/web/code", cookie)["code"])
    assert other is not None
    assert server.post("/web/logout", other) == 204
    assert refused(server, origin=server.origin, cookie=other) == 401


def test_programs_come_in_as_before(server: PageServer) -> None:
    """No Origin, no page: the user's own programs."""
    assert refused(server) == 101


def test_the_cookie_says_what_it_has_to(server: PageServer, cookie: str) -> None:
    code = server.post("/web/code", cookie)["code"]
    response, _ = server.request("POST", "/web/login", {"Origin": server.origin, "Authorization": f"Code {code}"})
    given = (response.getheader("Set-Cookie") or "").split("; ")
    assert given[0].startswith(f"exec-server-{server.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} < set(given)
    assert "Secure" not in given  # the browser would not send it to http://


def test_a_share_watches_and_nothing_else(server: PageServer, cookie: str) -> None:
    with server.upgrade(server.origin, cookie) as owner:
        facts = initialize(owner)
        process = {"argv": ["cat"], "cwd": "/", "env": {}, "tty": True}
        assert call(owner, "process/start", {"processId": "p", **process}, 2)["processId"] == "p"
        share = server.post("/web/share", cookie, **{"X-Observe-Id": facts["observeId"]})["share"]
        watching = server.log_in(share, kind="Share")
        assert watching is not None
        assert server.post("/web/code", watching) == 401
        assert server.post("/web/share", watching, **{"X-Observe-Id": facts["observeId"]}) == 401
        with server.upgrade(server.origin, watching) as watcher:
            mine = initialize(watcher, sessionTtlMs=10_000_000)
            session = {"sessionId": facts["sessionId"]}
            attempts = {
                "process/start": {"processId": "q", **process},
                "process/write": {"processId": "w", "chunk": "eA=="},
                "process/list": {},
                "process/signal": {"processId": "w", "signal": "SIGKILL"},
                "process/resize": {"processId": "w", "rows": 1, "cols": 1},
                "process/closeStdin": {"processId": "w"},
                "process/terminate": {"processId": "w"},
                "fs/readFile": {"path": "/etc/passwd"},
                "fs/writeFile": {"path": "/tmp/never", "dataBase64": ""},
                "http/request": {"method": "GET", "url": "http://127.0.0.1/", "requestId": "r"},
                "environmentConfig/read": {"cwd": "/", "configPaths": [["a"]], "requirementsPaths": []},
            }
            shown = {"processId": "p", "observeId": facts["observeId"], "as": "w"}
            assert call(watcher, "process/attach", shown, 3)["nextSeq"] >= 1
            for number, (method, params) in enumerate(attempts.items(), 10):
                assert call(watcher, method, params, number)["data"]["kind"] == "notPermitted", method
                elsewhere = {**params, **session, "processId": "p"}
                assert "code" in call(watcher, method, elsewhere, number + 100), method
            for number, method in enumerate(("process/read", "process/wait", "process/screen"), 300):
                stolen = call(watcher, method, {"processId": "p", **session, "waitMs": 0}, number)
                assert stolen["data"]["kind"] == "notPermitted", method
            other = {**shown, "observeId": mine["observeId"], "as": "x"}
            assert call(watcher, "process/attach", other, 4)["data"]["kind"] == "notPermitted"
            by_session = {"processId": "p", **session, "as": "y"}
            assert call(watcher, "process/attach", by_session, 5)["data"]["kind"] == "notPermitted"
        with server.upgrade(server.origin, watching) as watcher:
            taken = call(watcher, "initialize", {"clientName": "t", "resumeSessionId": facts["sessionId"]})
            assert taken["data"]["kind"] == "notPermitted"
        assert call(owner, "process/list", {}, 6)["processes"][0]["running"] is True


def test_where_tokens_are_asked_for_the_page_asks_for_one(tmp_path) -> None:  # type: ignore[no-untyped-def]
    token = tmp_path / "token"
    token.write_text("correct horse battery staple, at length\n")
    with page_server("--ws-auth", "capability-token", "--ws-token-file", str(token)) as server:
        assert server.code == ""
        assert json.loads(server.request("GET", "/web/session")[1])["asksFor"] == "token"
        assert server.log_in("wrong", kind="Bearer") is None
        cookie = server.log_in(token.read_text().strip(), kind="Bearer")
        assert cookie is not None
        assert refused(server, origin=server.origin, cookie=cookie) == 101
        assert refused(server, origin=server.origin) == 401
        assert refused(server) == 401
        assert refused(server, cookie=cookie) == 401  # without our origin a cookie is nothing
        assert server.log_in(server.post("/web/code", cookie)["code"]) is not None


def test_behind_a_proxy_the_page_has_the_origin_of_the_proxy() -> None:
    with page_server("--web-origin", "https://shell.example") as server:
        assert server.origin == "https://shell.example"
        proxied = {"Host": "shell.example", "Origin": "https://shell.example"}
        answer, _ = server.request("POST", "/web/login", {**proxied, "Authorization": f"Code {server.code}"})
        given = answer.getheader("Set-Cookie") or ""
        assert given.startswith("__Host-exec-server-443=")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} < set(given.split("; "))
        cookie = given.partition(";")[0]
        assert refused(server, origin="https://shell.example", cookie=cookie, Host="shell.example") == 101
        assert refused(server, origin="http://shell.example", cookie=cookie, Host="shell.example") == 401
        assert refused(server, origin="https://shell.example", cookie=cookie) == 403
        assert refused(server, origin="https://other.example", cookie=cookie, Host="other.example") == 403


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--listen", "unix:///tmp/never.sock"), "needs a port that a browser can reach"),
        (("--web-origin", "shell.example"), "expected https://HOST"),
        (("--web-origin", "https://shell.example/path"), "expected https://HOST"),
    ],
)
def test_settings_that_cannot_be_are_told(options: tuple[str, ...], text: str) -> None:
    import subprocess
    import sys

    argv = [sys.executable, "-m", "exec_server", "serve", "--web", *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 2)
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
