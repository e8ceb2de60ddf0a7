"""What a web server may send so that decoding it takes the time of all."""

from __future__ import annotations

import gzip
import sys

import pytest

from actors.system.http.content_coding import BYTES_A_PART, FREE_PARTS, CodingError, decoder_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS = {"gzip": gzip.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("coding", COMPRESS)
def test_parts_that_hold_nothing_are_few(coding: str) -> None:
    """L6. 300,000 empty frames in 2.7 MB. Lost: the thread that decodes, for all sessions."""
    empty, decoder = COMPRESS[coding](b""), decoder_of(coding)
    for _ in range(FREE_PARTS):
        assert b"".join(decoder.decode(empty)) == b""
    with pytest.raises(CodingError, match="1001"):
        list(decoder.decode(empty))
    with pytest.raises(CodingError, match="1001"):
        list(decoder_of(coding).decode(empty * 300_000))


@pytest.mark.parametrize("coding", COMPRESS)
def test_parts_that_hold_something_may_be_many(coding: str) -> None:
    """L6. Lost: a body in blocks of their own, as `bgzip` makes them."""
    part = b"x" * BYTES_A_PART
    data, decoder = COMPRESS[coding](part) * FREE_PARTS * 3, decoder_of(coding)
    assert b"".join(decoder.decode(data)) == part * FREE_PARTS * 3
    decoder.finish()
