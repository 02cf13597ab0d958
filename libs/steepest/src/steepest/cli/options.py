"""Options that several commands have, and amounts as people write them: ``0.5`` cores, ``2Gi``, ``30s``, ``n1=2:4Gi``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from steepest.app.state_folder import NodeSpec

F = TypeVar("F", bound=Callable[..., Any])

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", re.ASCII)
_MOST = 10**12
"""No machine has as much of anything, and every amount below it is exact."""


def folder_option(command: F) -> F:
    """``--state DIR``: which installation is meant."""
    return click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(".steepest"),
        envvar="STEEPEST_STATE_DIR",
        show_default=True,
        show_envvar=True,
        help="The state folder.",
    )(command)


def state_option(command: F) -> F:
    """``--state DIR`` and ``--kafka HOST:PORT``: which installation is meant, and where its log is."""

    def name_cluster(_ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        # Everything that opens a log asks the environment; so the option is the variable in another spelling.
        if value not in {None, AUTO}:
            os.environ["STEEPEST_KAFKA"] = str(value)

    return click.option(
        "--kafka",
        metavar="HOST:PORT",
        callback=name_cluster,
        expose_value=False,
        envvar="STEEPEST_KAFKA",
        show_envvar=True,
        help="The log is on this Kafka cluster; default: where `up` has put it.",
    )(folder_option(command))


AUTO = "auto"
"""A broker of the installation's own."""


def policy_option(default: str | None) -> Callable[[F], F]:
    """``--policy NAME``: what schedules beside the first placement."""
    return click.option(
        "--policy",
        type=click.Choice(POLICY_NAMES),
        default=default,
        show_default=default is not None,
        help="Who moves jobs, and who limits their CPU.",
    )


POLICY_NAMES = ("specon", "specon-adaptive", "flowcon", "specon+flowcon", "none")
"""Those of ``steepest.policies.named``, which a command need not import to be described; a test holds them together."""

PLACEMENT_NAMES = ("spread", "flowcon2")
"""Likewise, those of ``steepest.policies.placement.policies``."""


def json_option(command: F) -> F:
    """``--json``: for programs."""
    return click.option("--json/--no-json", "as_json", default=False, help="Print JSON and nothing else.")(command)


class Amount(click.ParamType[int]):
    """A number with a unit, as a whole number of the smallest unit."""

    def __init__(self, name: str, units: Mapping[str, float], example: str, *, least: int = 1) -> None:
        """Units by their names, each with its worth; the empty name is the unit of a bare number."""
        self.name = name
        self._units = units
        self._example = example
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of smallest units."""
        if isinstance(value, int):
            return value
        found = _AMOUNT.fullmatch(str(value).strip())
        if found is None or found[2] not in self._units:
            self.fail(f"{value!r} is no amount of {self.name}; write it like {self._example}", param, ctx)
        amount = round(float(found[1]) * self._units[found[2]])
        if not self._least <= amount <= _MOST:
            self.fail(f"{value!r} is no possible amount of {self.name}", param, ctx)
        return amount


CPU = Amount("cpu", {"": 1000, "m": 1}, "0.5 (cores) or 500m")
"""CPU in millicores."""

_MIB: Mapping[str, float] = {
    **dict.fromkeys(("", "M", "Mi", "MiB"), 1),
    **dict.fromkeys(("G", "Gi", "GiB"), 1024),
    **dict.fromkeys(("T", "Ti", "TiB"), 1024**2),
}
MEMORY = Amount("memory", _MIB, "512 (MiB), 512Mi or 2Gi", least=0)
"""Memory in MiB."""

_TIMES: Mapping[str, float] = {"": 1000, "s": 1000, "ms": 1, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SPAN = Amount("time", _TIMES, "30 (seconds), 30s, 2min or 7d")
"""A span of time in milliseconds."""


class NodeType(click.ParamType["NodeSpec"]):
    """``NAME=CPU[:MEMORY]``: an emulated node."""

    name = "name=cpu[:memory]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeSpec:
        """The node."""
        import msgspec

        from steepest.app.state_folder import NodeSpec
        from steepest.events.common import Name, Resources

        if isinstance(value, NodeSpec):
            return value
        name, equals, amounts = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is no node; write it like n1=0.5 or n1=2:4Gi", param, ctx)
        cpu, colon, memory = amounts.partition(":")
        try:
            msgspec.convert(name, Name)
        except msgspec.ValidationError:
            self.fail(f"{name!r} is no name of a node: {NAME_RULE}", param, ctx)
        capacity = Resources(CPU.convert(cpu, param, ctx), MEMORY.convert(memory, param, ctx) if colon else 0)
        return NodeSpec(name, capacity)


NAME_RULE = "use 1 to 63 lower-case letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
"""What a name must be like, in words."""
