"""Every name that the system can hold has a URI, and it leads back."""

from __future__ import annotations

import os
import posixpath

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidParams
from protocol.paths import native_path, path_uri

SEGMENT = st.binary(min_size=1, max_size=12).filter(
    lambda s: b"/" not in s and b"\0" not in s and s not in (b".", b"..")
)
PATH = st.lists(SEGMENT, max_size=5).map(lambda parts: b"/" + b"/".join(parts))


def is_drive(path: bytes) -> bool:
    first = path.split(b"/")[1]
    return len(first) == 2 and first[:1].isalpha() and first[1:] in (b":", b"|")


@given(PATH.filter(lambda path: not is_drive(path)))
def test_a_path_survives_its_uri(path: bytes) -> None:
    """A file that was listed could not be opened."""
    uri = path_uri(path)
    assert uri.isascii()
    assert os.fsencode(native_path(uri)) == path
    assert path_uri(native_path(uri)) == uri


@given(st.text())
def test_any_text_is_a_path_or_an_error(text: str) -> None:
    """A strange path would end the request without an answer."""
    try:
        path = native_path(text)
    except InvalidParams:
        return
    assert path.startswith("/")
    assert "\0" not in path


@given(st.lists(st.sampled_from(["a", "b", ".", "..", "%2e", "%2E%2e", ""]), max_size=8))
def test_dot_segments_never_lead_above_the_root_and_agree_with_posix(parts: list[str]) -> None:
    """`..` would be resolved in another way than the client's own library does."""
    path = native_path("file:///" + "/".join(parts))
    assert not {".", ".."} & set(path.split("/"))
    if "" not in parts:
        plain = "/" + "/".join(part.lower().replace("%2e", ".") for part in parts)
        assert posixpath.normpath(path) == posixpath.normpath(plain)
