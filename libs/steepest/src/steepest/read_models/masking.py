"""Events as they may be shown: the values of a job's variables may be secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events.cluster import JobSubmitted

MASK = "***"


def masked(event: Any) -> Any:
    """An event whose job's variables show their names alone."""
    if not isinstance(event, JobSubmitted):
        return event
    spec = msgspec.structs.replace(event.spec, env=dict.fromkeys(event.spec.env, MASK))
    return msgspec.structs.replace(event, spec=spec)
