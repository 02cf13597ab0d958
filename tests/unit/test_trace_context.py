"""Trace context: ids are functions of their cause, and what comes from outside is taken only in its form."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.events.received import Received
from steepest.trace_context import (
    TRACEPARENT,
    is_traceparent,
    span_id,
    trace_begun,
    trace_continued,
    trace_id,
    trace_in,
)

OF_A_CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
FORM = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01")


@given(st.text(), st.text())
def test_a_trace_begins_and_goes_on_by_name(name: str, then: str) -> None:
    """Any name makes a `traceparent`, the same one each time; what follows is in the same trace, as another span."""
    begun = trace_begun(name)
    continued = trace_continued(begun, then)

    assert FORM.fullmatch(begun)
    assert FORM.fullmatch(continued)
    assert (begun, continued) == (trace_begun(name), trace_continued(trace_begun(name), then))
    assert trace_id(continued) == trace_id(begun)
    assert span_id(continued) != span_id(begun)


@given(st.sets(st.text(), min_size=2, max_size=2))
def test_names_make_traces_of_their_own(names: set[str]) -> None:
    """Two causes never share a trace."""
    assert len({trace_id(trace_begun(name)) for name in names}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        OF_A_CALLER.upper(),
        OF_A_CALLER + "\n",
        OF_A_CALLER + "-more",
        OF_A_CALLER.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "x" * 1_000_000,
    ],
)
def test_what_has_not_the_form_is_no_trace(text: str) -> None:
    """A header comes from outside: what is no `traceparent` is as if nothing was said."""
    assert not is_traceparent(text)
    assert trace_in({TRACEPARENT: text}) == ""


def test_a_record_without_a_trace_begins_one_at_its_position() -> None:
    """Two readers of one log name it alike; another log's record at that position is another trace."""
    record = Received(event=None, topic="loss", partition=1, offset=7, at_ms=0)
    brought = Received(event=None, topic="loss", partition=1, offset=7, at_ms=0, headers={TRACEPARENT: OF_A_CALLER})

    assert record.trace("e1") == record.trace("e1") != record.trace("e2")
    assert brought.trace("e1") == OF_A_CALLER
