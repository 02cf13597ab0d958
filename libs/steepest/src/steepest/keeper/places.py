"""What another place must have for an image of here, as far as that shows before CRIU is tried."""

from __future__ import annotations

import functools
import platform
from typing import Any

from steepest.keeper.criu import Criu
from steepest.keeper.processes import CannotBeSaved, fields

FORMAT = 2
"""Of an image. Raise it when a keeper reads other facts or files than those that earlier ones have written."""


@functools.lru_cache(maxsize=1)
def own_place(criu: Criu) -> dict[str, Any]:
    """The facts of this machine: its type, the kernel's minor version, CRIU's version, and what the processor can do."""
    of_cpu = fields("/proc/cpuinfo")
    return {
        "machine": platform.machine(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "cpu": sorted((of_cpu.get("flags") or of_cpu.get("Features", "")).split()),
        "criu": criu.version(),
    }


def refuse_other_place(there: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse to restore an image where it could not run on.

    Args:
        there: Where it was made.
        here: Where it would be restored.

    Raises:
        CannotBeSaved: ``other-keeper``, ``other-kernel``, ``other-image``, ``other-cpu``, ``other-clock`` or ``other-criu``.
    """
    if there.get("format") != here["format"]:
        raise CannotBeSaved("other-keeper", "it was saved by another version of Steepest")
    if (there["machine"], there["kernel"]) != (here["machine"], here["kernel"]):
        raise CannotBeSaved("other-kernel", f"it was saved on {there['machine']}, Linux {there['kernel']}")
    if there["files"] != here["files"]:
        raise CannotBeSaved("other-image", "it was saved in a container of another image")
    if lacking := [name for name in there["cpu"] if name not in here["cpu"]]:  # libraries have chosen code by them
        raise CannotBeSaved("other-cpu", f"the CPU has no {', '.join(lacking[:10])}")
    if there["clock_s"] > here["clock_s"]:
        raise CannotBeSaved("other-clock", "this machine started later, and what the job waits for would be far ahead")
    if there["criu"] > here["criu"]:
        raise CannotBeSaved("other-criu", f"it was saved by CRIU {'.'.join(map(str, there['criu']))}")
