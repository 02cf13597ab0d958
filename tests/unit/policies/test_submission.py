"""What every door of a pool refuses before it asks."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.requests import JobSpec
from steepest.policies.submission import refuse_what_never_fits, with_priority


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


def test_gpus_that_no_node_has_are_named_as_such() -> None:
    """`--gpus 1` on a machine without any: the error does not speak of CPU, and says how a pool gets GPUs."""
    spec = JobSpec(command=("true",), requests=Resources(cpu_m=1_000, gpus=1))
    nodes = {"ws": Resources(8_000)}

    with pytest.raises(InputError, match=r"^the job asks for GPUs, and no node has any$") as caught:
        refuse_what_never_fits(spec, nodes, isolated=False)
    assert "nvidia-smi" in caught.value.hint


def test_the_largest_node_is_the_one_with_most_of_what_is_short() -> None:
    """Of memory, the node with most memory, though another one has more CPU."""
    spec = JobSpec(command=("true",), requests=Resources(cpu_m=1_000, memory_mib=8_192))
    nodes = {"fast": Resources(2_000, 1_024), "wide": Resources(1_000, 4_096)}

    with pytest.raises(InputError, match="more than any node has") as caught:
        refuse_what_never_fits(spec, nodes, isolated=False)
    assert caught.value.hint == "ask for less memory: the largest, wide, has 1000m CPU, 4096 MiB"
