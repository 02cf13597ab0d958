"""What every door of a pool refuses before it asks."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.errors import InputError
from steepest.events.parameters import PoolParameters
from steepest.events.requests import JobSpec
from steepest.policies.submission import with_priority


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ("true", "a\0b")},
        {"working_dir": "/data\0"},
        {"metrics_folder": "/data\0/x"},
        {"image": "\0"},
        {"env": {"A\0": "b"}},
        {"env": {"A": "\0"}},
    ],
)
def test_a_text_that_the_system_cannot_take_is_refused_by_its_field(changes: dict[str, Any]) -> None:
    """A NUL would end it: the submitter is told, and no adapter and no reader meets it."""
    spec = JobSpec(**{"command": ("true",), **changes})

    with pytest.raises(InputError, match=f"^{next(iter(changes))}: it contains a NUL"):
        with_priority(spec, PoolParameters())
