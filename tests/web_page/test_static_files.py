"""What is served of the page. Lost: a page that loads slowly, or one that others can put into theirs."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exec_server.server.page import static_files
from tests.web_page.server import PageServer, page_server

FIRST_LOAD_BYTES = 500_000


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with page_server() as running:
        yield running


def test_every_file_is_served_as_it_is_and_packed(server: PageServer) -> None:
    total = 0
    for path, file in static_files().items():
        response, body = server.request("GET", path)
        assert (response.status, body) == (200, file.body), path
        packed, body = server.request("GET", path, {"Accept-Encoding": "br, gzip;q=0.5"})
        total += len(body)
        if packed.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert body == file.body, path
        refused, body = server.request("GET", path, {"Accept-Encoding": "gzip;q=0"})
        assert (refused.getheader("Content-Encoding"), body) == (None, file.body), path
    assert total < FIRST_LOAD_BYTES


def test_what_a_browser_has_is_not_sent_again(server: PageServer) -> None:
    for coding in ("identity", "gzip"):
        first, _ = server.request("GET", "/page/main.js", {"Accept-Encoding": coding})
        etag = first.getheader("ETag") or ""
        for sent in (etag, f"W/{etag}", f'"other", {etag}'):
            again, body = server.request("GET", "/page/main.js", {"Accept-Encoding": coding, "If-None-Match": sent})
            assert (again.status, body, again.getheader("ETag")) == (304, b"", etag)
    assert server.request("GET", "/page/main.js", {"If-None-Match": '"other"'})[0].status == 200


def test_every_answer_keeps_others_out(server: PageServer) -> None:
    for path in ("/", "/page/main.js", "/vendor/xterm/xterm.css", "/web/session", "/none"):
        response, _ = server.request("GET", path)
        policy = response.getheader("Content-Security-Policy") or ""
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        assert response.getheader("X-Content-Type-Options") == "nosniff"
        assert response.getheader("Cross-Origin-Resource-Policy") == "same-origin"
        assert response.getheader("Access-Control-Allow-Origin") is None


@pytest.mark.parametrize(
    "path",
    ["/none", "/page/", "/page/../main.js", "/page/%2e%2e/page/main.js", "//page/main.js", "/etc/passwd", "/web/x"],
)
def test_nothing_else_is_served(server: PageServer, path: str) -> None:
    assert server.request("GET", path)[0].status in (404, 405)


def test_other_methods_are_refused_and_head_has_no_body(server: PageServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert server.request(method, "/page/main.js")[0].status in (403, 405)
    response, body = server.request("HEAD", "/")
    assert (response.status, body) == (200, b"")


def test_the_page_asks_nobody_else_and_has_nothing_inline() -> None:
    page = Path(__file__).parent.parent.parent / "web" / "page"
    html = (page / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|javascript:|<script(?![^>]*\ssrc=)", html)
    for path in page.iterdir():
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        assert not re.search(r"""["'(]https?://(?!www\.w3\.org/)""", text), path


def test_health_is_answered_as_before(server: PageServer) -> None:
    assert server.request("GET", "/livez")[0].status == 200
    assert server.request("GET", "/readyz")[0].status == 200
