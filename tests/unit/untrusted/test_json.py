"""However JSON from outside is broken, one error comes of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.errors import UntrustedError
from steepest.untrusted.json import decode, decoder, read_json


class Said(msgspec.Struct):
    """Something that is expected."""

    step: int


def nested(depth: int, opening: bytes) -> bytes:
    """That many nested arrays or objects, in a field that the reader ignores."""
    return b'{"step": 1, "x": ' + opening * depth


ENDLESS = [b"[", b'{"a":', b'[{"a":', b'{"step":']


@pytest.mark.parametrize("opening", ENDLESS)
@pytest.mark.parametrize("depth", [1, 1_000, 30_000])
def test_deep_nesting_is_one_more_fault(opening: bytes, depth: int) -> None:
    """Nesting beyond what the decoder follows ends in the same error as a missing bracket."""
    for decodes in (decoder(Said), lambda content: decode(content, Said)):
        with pytest.raises(UntrustedError):
            decodes(nested(depth, opening))


def test_deep_nesting_that_is_closed_is_a_fault_too() -> None:
    """Whole, and still too deep."""
    with pytest.raises(UntrustedError):
        decode(b'{"step": 1, "x": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", Said)


@given(
    content=st.one_of(
        st.binary(),
        st.tuples(st.integers(0, 5_000), st.sampled_from(ENDLESS)).map(lambda made: nested(*made)),
        st.tuples(st.just(b'{"step": '), st.text("0123456789.eE+-", max_size=6_000).map(str.encode), st.just(b"}")).map(
            b"".join
        ),
    )
)
def test_whatever_comes_is_decoded_or_refused(content: bytes) -> None:
    """No bytes raise anything else."""
    with contextlib.suppress(UntrustedError):
        assert isinstance(decode(content, Said).step, int)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    """Who reads the log knows where to look."""
    path = tmp_path / "said.json"
    path.write_bytes(b"[" * 30_000)

    with pytest.raises(UntrustedError, match=r"said\.json"):
        read_json(path, Said, below=tmp_path, most=100_000)
