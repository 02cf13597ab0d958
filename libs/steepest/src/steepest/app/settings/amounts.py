"""Amounts as people write them: ``0.5`` cores, ``2Gi``, ``30s``, ``n1=2:4Gi``.

It owns the units and what is refused. It must never know where a text comes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steepest.app.state_folder import NodeSpec
    from steepest.events.parameters import QueueLimits

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", re.ASCII)
_GPUS = re.compile(r"\d{1,4}", re.ASCII)
_GPUS_ARE = "gpus="
_MOST = 10**12
"""No machine has as much of anything, and every amount below it is exact."""

NAME_RULE = "use 1 to 63 lower-case letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
"""The rule for a name, in words."""


class Quantity:
    """A kind of amount: a number with a unit, as a whole number of the smallest unit."""

    def __init__(self, name: str, units: Mapping[str, float], example: str, *, least: int = 1) -> None:
        """Units by their names, each with its worth; the empty name is the unit of a bare number."""
        self.name = name
        self._units = units
        self._example = example
        self._least = least

    def parse(self, text: str) -> int:
        """The number of smallest units.

        Raises:
            ValueError: The text is not an amount of this kind; the message says how one is written.
        """
        found = _AMOUNT.fullmatch(text.strip())
        if found is None or found[2] not in self._units:
            raise ValueError(f"{text!r} is no amount of {self.name}; write it like {self._example}")
        amount = round(float(found[1]) * self._units[found[2]])
        if not self._least <= amount <= _MOST:
            raise ValueError(f"{text!r} is too {'little' if amount < self._least else 'much'} {self.name}")
        return amount


CPU = Quantity("cpu", {"": 1000, "m": 1}, "0.5 (cores) or 500m")
"""CPU in millicores."""

_MIB: Mapping[str, float] = {
    **dict.fromkeys(("", "M", "Mi", "MiB"), 1),
    **dict.fromkeys(("G", "Gi", "GiB"), 1024),
    **dict.fromkeys(("T", "Ti", "TiB"), 1024**2),
}
MEMORY = Quantity("memory", _MIB, "512 (MiB), 512Mi or 2Gi", least=0)
"""Memory in MiB."""

GPUS = Quantity("GPUs", {"": 1000}, "2, or 0.5 for a share of one")
"""GPUs in thousandths."""

_TIMES: Mapping[str, float] = {"": 1000, "s": 1000, "ms": 1, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SPAN = Quantity("time", _TIMES, "30 (seconds), 30s, 2min or 7d")
"""A span of time in milliseconds."""


def node(text: str) -> NodeSpec:
    """The node that ``NAME=CPU[:MEMORY][:gpus=N|auto]`` describes; ``auto``: the GPUs of this machine.

    Raises:
        ValueError: It is none; the message says what is wrong.
        InputError: This machine's GPUs cannot be counted.
    """
    import msgspec  # noqa: PLC0415 - help does without

    from steepest.app.state_folder import NodeSpec  # noqa: PLC0415 - as above
    from steepest.events.common import Name, Resources  # noqa: PLC0415 - as above

    name, equals, amounts = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is no node; write it like n1=0.5 or n1=2:4Gi")
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name!r} is no name of a node: {NAME_RULE}") from error
    cpu, *others = amounts.split(":")
    gpus = others.pop().removeprefix(_GPUS_ARE) if others and others[-1].startswith(_GPUS_ARE) else "0"
    return NodeSpec(name, Resources(CPU.parse(cpu), MEMORY.parse(":".join(others)) if others else 0, _gpus(gpus)))


def _gpus(number: str) -> int:
    if number == "auto":
        from steepest.cluster.nvml import count_gpus  # noqa: PLC0415 - few nodes ask for it

        return count_gpus()
    if not _GPUS.fullmatch(number):
        raise ValueError(f"{number!r} is no number of GPUs; write it like n1=4:gpus=2, or n1=4:gpus=auto")
    return int(number)


def user_limits(text: str) -> QueueLimits:
    """Those of a user, likewise; ``*``: of each one without limits of its own.

    Raises:
        ValueError: It describes none; the message says what is wrong.
    """
    return queue_limits(text, "user")


def queue_limits(text: str, of: str = "queue") -> QueueLimits:
    """The limits that ``QUEUE:jobs=N:replicas=N:cpu=CORES:memory=SIZE:gpus=N`` describes; one that is left out is none.

    Raises:
        ValueError: It describes none; the message says what is wrong.
    """
    import msgspec  # noqa: PLC0415 - help does without

    from steepest.events.parameters import QueueLimits  # noqa: PLC0415 - as above

    whose, _, rest = text.partition(":")
    amounts = dict(part.partition("=")[::2] for part in rest.split(":"))
    limits = {_LIMITS[name][0]: _LIMITS[name][1].parse(amount) for name, amount in amounts.items() if name in _LIMITS}
    if len(limits) != len(amounts):
        raise ValueError(f"{text!r} is no limit of a {of}; write it like paper:jobs=100:cpu=4:gpus=2")
    try:
        return msgspec.convert({of: whose or "-", **limits}, QueueLimits)
    except msgspec.ValidationError as error:
        raise ValueError(f"{whose!r} is no name of a {of}: {NAME_RULE}") from error


_LIMITS: Mapping[str, tuple[str, Quantity]] = {
    "jobs": ("jobs", Quantity("jobs", {"": 1}, "100", least=0)),
    "replicas": ("replicas", Quantity("replicas", {"": 1}, "8", least=0)),
    "cpu": ("cpu_m", Quantity("cpu", {"": 1000, "m": 1}, "0.5 (cores) or 500m", least=0)),
    "memory": ("memory_mib", MEMORY),
    "gpus": ("gpu_m", Quantity("gpus", {"": 1000}, "2 or 0.5", least=0)),
}
"""The names of limits, the field of each, and how it is written."""
