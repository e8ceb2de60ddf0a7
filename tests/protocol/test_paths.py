"""Path URIs (docs/protocol.md, "Types")."""

from __future__ import annotations

import os

import pytest

from protocol.errors import InvalidParams
from protocol.paths import cwd_path, native_path, path_uri


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp", "/tmp"),
        ("/tmp/../a b%20", "/tmp/../a b%20"),
        ("file:/x", "/x"),
        ("file:///x", "/x"),
        ("file://localhost/x", "/x"),
        ("file://LOCALHOST/x", "/x"),
        ("FILE:///tmp", "/tmp"),
        ("file:///", "/"),
        ("file://", "/"),
        ("file:///tmp/", "/tmp/"),
        ("file:///tmp//x", "/tmp//x"),
        ("file:///tmp/../tmp", "/tmp"),
        ("file:///tmp/./a/..", "/tmp/"),
        ("file:///../../x", "/x"),
        ("file:///a/%2e%2E/b/%2e", "/b/"),
        ("file:///a%2Fb", "/a/b"),
        ("file:///sp%20ace/raw space", "/sp ace/raw space"),
        ("file:///%70roto", "/proto"),
        ("file:///%C3%A9/é", "/é/é"),
        ("file:///bad%FF", "/bad" + os.fsdecode(b"\xff")),
        ("file:///a%25%23%3F&+", "/a%#?&+"),
        ("file:///100%", "/100%"),
        ("file:///a\\b", "/a/b"),
        ("file:///a%5Cb", "/a\\b"),
        (" file:///a\tb\n", "/ab"),
    ],
)
def test_reads(text: str, path: str) -> None:
    """A client's path would name another file."""
    assert native_path(text) == path
    assert cwd_path(text) == path


@pytest.mark.parametrize(
    ("text", "message", "of_cwd"),
    [
        ("tmp", "invalid URI: relative URL without a base", None),
        ("", "invalid URI: relative URL without a base", None),
        ("./x", "invalid URI: relative URL without a base", None),
        ("http://x/tmp", "unsupported path URI scheme `http`", None),
        ("HTTP:x", "unsupported path URI scheme `http`", None),
        ("file:///tmp/%41?x=1#f", "query parameters are not allowed in path URIs", None),
        ("file:///tmp?x", "query parameters are not allowed in path URIs", None),
        ("file:///tmp#f", "fragments are not allowed in path URIs", None),
        ("file://otherhost/tmp", "'file://otherhost/tmp' is invalid on 'linux'", True),
        ("file:///C:/Windows", "'file:///C:/Windows' is invalid on 'linux'", True),
        ("file:C:", "'file:C:' is invalid on 'linux'", True),
        ("file:///c%3A/x", "'file:///c%3A/x' is invalid on 'linux'", True),
        ("file:///c|/x", "'file:///c|/x' is invalid on 'linux'", True),
        ("file:///a%00b", "'file:///a%00b' is invalid on 'linux'", True),
        ("/a\0b", "'/a\0b' is invalid on 'linux'", True),
    ],
)
def test_refuses(text: str, message: str, of_cwd: bool | None) -> None:
    """A path that means nothing here would be opened somewhere else, or fail without saying why."""
    with pytest.raises(InvalidParams) as refused:
        native_path(text)
    assert refused.value.message == message
    with pytest.raises(InvalidParams) as refused:
        cwd_path(text)
    prefix = f"cwd URI `{text}` is not valid on this exec-server host: " if of_cwd else ""
    assert refused.value.message == prefix + message


def test_writes() -> None:
    """Clients compare and reuse the URIs they are given."""
    assert path_uri("/") == "file:///"
    assert path_uri("/sp ace/%#?&+é;=:@!$'()*,~._-") == "file:///sp%20ace/%25%23%3F&+%C3%A9;=:@!$'()*,~._-"
    assert path_uri(b"/\xff\\") == "file:///%FF%5C"
    with pytest.raises(ValueError, match="absolute"):
        path_uri("x")
