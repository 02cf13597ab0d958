"""What holds of a recording's header with any content."""

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from steepest.errors import RecordingError
from steepest.log.files.recording import FORMAT, NAME, VERSION, open_recording
from steepest.log.validation import MAX_PARTITIONS

ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
COUNTS = st.integers(-2, 3) | st.integers(MAX_PARTITIONS - 1, 2**64 - 1) | ANY
HEADERS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"format": st.just(FORMAT) | ANY, "version": st.just(VERSION) | ANY},
    optional={
        "partitions": st.dictionaries(st.sampled_from(["cluster", "loss"]) | st.text(max_size=300), COUNTS) | ANY
    },
)
MOST_BYTES = 64 * 2**20
"""Of memory: thousands of times what any such header needs, and a hundredth of what the worst one asks for."""


def refused(folder: Path) -> RecordingError | None:
    """Why the folder is no recording; None if it is one (without topics, as there are no files)."""
    try:
        assert open_recording(folder).counts == {}
    except RecordingError as error:
        return error
    return None


@given(HEADERS.map(msgspec.json.encode) | st.binary(max_size=200))
@example(msgspec.json.encode({"format": FORMAT, "version": VERSION, "partitions": {"cluster": 10**12}}))
def test_a_header_is_a_recordings_or_is_refused_by_name(header: bytes) -> None:
    """One error, which names the file and the first thing to do, and memory within bounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / NAME).write_bytes(header)
        tracemalloc.start()
        error = refused(folder)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_BYTES
    assert error is None or (name in str(error) and error.hint and len(str(error)) < 2_000)
