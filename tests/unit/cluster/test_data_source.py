"""Addresses of storage servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.data_source import DataSource, data_source
from steepest.errors import InputError


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://storage", DataSource("storage", 80)),
        ("http://storage:8080/", DataSource("storage", 8080)),
        ("http://10.0.0.1:9000/bucket/a/", DataSource("10.0.0.1", 9000, "/bucket/a")),
    ],
)
def test_an_address_names_host_port_and_path(url: str, found: DataSource) -> None:
    """And is the same when it is written again."""
    assert data_source(url) == found
    assert data_source(found.url) == found


@pytest.mark.parametrize(
    "url", ["", "storage:80", "https://storage", "http://", "http://u@storage", "http://s:0", "http://s:x"]
)
def test_what_is_no_address_is_refused_with_its_text(url: str) -> None:
    """The message says what was given."""
    with pytest.raises(InputError, match="is no address of a storage server"):
        data_source(url)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    """Nothing else is raised."""
    try:
        found = data_source(f"http://{text}")
    except InputError:
        return
    assert 0 < found.port < 65536
