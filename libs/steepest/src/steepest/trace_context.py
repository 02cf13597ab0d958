"""Trace context in the headers of records: which chain of causes a record belongs to, and its own place in it.

The form is W3C Trace Context's ``traceparent``, ``00-TRACE-SPAN-01``. All ids are functions of the cause: a chain begins at
a record's position in its log, or at the name of a request, and a link is named by the id of the decision or the attempt of
the step. So a replay makes the same ids, and a record that is written again after a failure has the ids that it had.

It owns the ids and their text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

TRACEPARENT = "traceparent"
"""The header, and in capitals the variable in a job's environment."""

_PREFIX = "00-"
_SAMPLED = "-01"
_TRACE = slice(3, 35)
_SPAN = slice(36, 52)
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_begun(name: str) -> str:
    """The ``traceparent`` of a chain that begins at what this name is unique to, such as a record's position."""
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=24).hexdigest()
    return f"{_PREFIX}{digest[:32]}-{digest[32:]}{_SAMPLED}"


def trace_of_request(topic: str, partition: int, request: str) -> str:
    """The ``traceparent`` of a request whose caller named none."""
    return trace_begun(f"{topic}/{partition}/{request}")


def trace_continued(cause: str, name: str) -> str:
    """The ``traceparent`` of what follows from a cause: in its trace, with a span of its own. ``name`` is unique in it."""
    trace = cause[_TRACE]
    digest = hashlib.blake2b(f"{trace}{name}".encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{_PREFIX}{trace}-{digest}{_SAMPLED}"


def trace_in(headers: Mapping[str, str]) -> str:
    """The ``traceparent`` of a record; empty if it has none, or one that has not the form: headers come from outside."""
    text = headers.get(TRACEPARENT, "")
    return text if text and is_traceparent(text) else ""


def is_traceparent(text: str) -> bool:
    """Whether a text has the form of ``traceparent``."""
    return _FORM.fullmatch(text) is not None


def trace_id(traceparent: str) -> str:
    """The trace's id, 32 hexadecimal digits."""
    return traceparent[_TRACE]


def span_id(traceparent: str) -> str:
    """The span's id, 16 hexadecimal digits."""
    return traceparent[_SPAN]


def exemplar_of(headers: Mapping[str, str]) -> dict[str, str] | None:
    """The trace that a record belongs to, as labels of an exemplar; None if it belongs to none."""
    trace = trace_in(headers)
    return {"trace_id": trace_id(trace)} if trace else None
