"""What is wrong with a submission that can be said before it is asked for: no room even in an empty pool, an unknown class.

It owns these refusals, which every door of a pool shares. What a system that runs refuses is the view's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.requests import JobSpec
from steepest.view.nodes import format_resources

AMOUNTS = {"CPU": "cpu_m", "memory": "memory_mib", "GPUs": "all_gpus_m"}
"""The resources of which a node may have too little, in words, and their fields."""

ARRAY_INDEX = "STEEPEST_ARRAY_INDEX"
"""The variable by which the jobs of an array tell themselves apart."""

_OF_USERS = re.compile(r".+\.[0-9a-f]{8}", re.ASCII)


def may_be_users(job: str) -> bool:
    """Whether a job's name is like those of objects that users make in a cluster: a name, and how their UID begins."""
    return _OF_USERS.fullmatch(job) is not None


def with_priority(spec: JobSpec, parameters: PoolParameters) -> JobSpec:
    """The description with the number that its priority class stands for now; a later change of the class leaves the job.

    Raises:
        InputError: There is no such class, or a text contains a NUL.
    """
    _refuse_nul(spec)
    if not spec.priority_class:
        return spec
    classes = parameters.queueing.classes
    for each in classes:
        if each.name == spec.priority_class:
            return msgspec.structs.replace(spec, priority=each.priority)
    names = ", ".join(each.name for each in classes)
    raise InputError(f"priority: there is no class {spec.priority_class}", hint=f"write a number, or one of {names}")


def _refuse_nul(spec: JobSpec) -> None:
    paths = {"working_dir": spec.working_dir or "", "metrics_folder": spec.metrics_folder, "image": spec.image}
    texts = {
        "command": spec.command,
        "env": (*spec.env, *spec.env.values()),
        **{name: (at,) for name, at in paths.items()},
    }
    for field, words in texts.items():
        if any("\0" in word for word in words):
            raise InputError(f"{field}: it contains a NUL, which ends a text of the system", hint="leave it out")


def refuse_what_never_fits(spec: JobSpec, nodes: Mapping[str, Resources], *, isolated: bool) -> None:
    """Return only if a job has room on these nodes when they are empty.

    Args:
        spec: The job.
        nodes: What each node has.
        isolated: Whether processes on different nodes cannot reach each other.

    Raises:
        InputError: It has not.
    """
    spec, nodes = spec.counted, {name: capacity.of_a_node for name, capacity in nodes.items()}
    for role in spec.all_roles:
        if not any(role.requests.fits(capacity) for capacity in nodes.values()):
            who = f"each {role.name} of the job" if spec.roles else "the job"
            if role.requests.all_gpus_m and not any(capacity.all_gpus_m for capacity in nodes.values()):
                raise InputError(
                    f"{who} asks for GPUs, and no node has any",
                    hint="submit it without --gpus, or begin a new folder where `nvidia-smi` lists them",
                )
            short = _what_is_short(role.requests, nodes)
            largest = max(nodes, key=lambda name: [getattr(nodes[name], AMOUNTS[one]) for one in (*short, "CPU")])
            raise InputError(
                f"{who} asks for {format_resources(role.requests)}, more than any node has",
                hint=f"ask for less{' ' * bool(short)}{' and '.join(short)}: the largest, {largest}, has "
                f"{format_resources(nodes[largest])}",
            )
    if spec.is_gang and isolated:
        raise InputError(
            "replicas of a job on Docker engines need their machine's network, and this installation keeps it from them",
            hint="allow it with `steepest up --host-network` (docs/docker.md says what that opens)",
        )
    if spec.is_gang and (why := _why_too_large(spec, nodes)):
        raise InputError(f"the job has no room even if all nodes were empty: {why}", hint="ask for fewer replicas")


def _what_is_short(wanted: Resources, nodes: Mapping[str, Resources]) -> list[str]:
    """The resources of which no node has as much; none where each is there by itself."""
    most = {what: max(getattr(capacity, field) for capacity in nodes.values()) for what, field in AMOUNTS.items()}
    return [what for what, field in AMOUNTS.items() if getattr(wanted, field) > most[what]]


def _why_too_large(spec: JobSpec, nodes: Mapping[str, Resources]) -> str:
    from steepest.policies.placement.gangs import choose, fewest  # noqa: PLC0415 - most jobs are no gangs
    from steepest.policies.placement.slots import Slots  # noqa: PLC0415 - likewise

    roles, slots = spec.all_roles, Slots(nodes)
    for role, count in zip(roles, fewest(roles), strict=True):
        if slots.of(role.requests) < count:
            return f"it needs {count} replicas of {role.name}, and {slots.of(role.requests)} fit"
    return "" if choose(roles, slots) is not None else "its roles do not fit beside each other"
