"""The pure parsers, with the grammar of bad input and without a socket; `fuzz_parsers` looks further."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.fuzz_parsers import PARSERS, seeds
from tests.security.grammar import FRAMES, HEADS, MESSAGES
from tests.support.examples import examples

# A payload may be long, and where one fails it is shown.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

STRATEGIES = {
    "frames": st.one_of(*FRAMES.values()),
    "lines": st.lists(st.one_of(*(kind("json") for kind in MESSAGES.values())), max_size=3).map(b"\n".join),
    "maps": st.lists(st.one_of(*(kind("msgpack") for kind in MESSAGES.values())), max_size=3).map(b"".join),
    "head": st.one_of(*HEADS.values()),
    "json": st.one_of(*(kind("json") for kind in MESSAGES.values())),
    "msgpack": st.one_of(*(kind("msgpack") for kind in MESSAGES.values())),
}


@pytest.mark.parametrize("parser", PARSERS)
def test_a_parser_keeps_its_promises_whatever_comes(parser: str) -> None:
    """Lost: a connection, or everybody's server, to an exception that nobody expects."""
    for seed in seeds(parser):
        PARSERS[parser](seed)

    @examples(150)
    @given(STRATEGIES[parser])
    def parsed(data: bytes) -> None:
        PARSERS[parser](data)

    parsed()
