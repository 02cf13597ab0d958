"""Spans of time, numbers of things, shares and amounts of data, as people write them."""

from __future__ import annotations

from collections.abc import Sequence


def span(ms: int) -> str:
    """A span of time: ``0.3 s``, ``41 s``, ``3 min 20 s``, ``2 h 05 min``."""
    seconds = ms / 1000
    if seconds < 10:  # noqa: PLR2004 - below ten seconds the tenth says something
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def count(number: int, noun: str) -> str:
    """A number of things: ``no step``, ``1 step``, ``12 steps``."""
    return f"no {noun}" if number == 0 else f"{number} {noun}{'' if number == 1 else 's'}"


def percent(growth: float) -> str:
    """A growth, which is a share of the largest loss: ``0.17 %``, ``12 %``."""
    return f"{growth:.2%}".replace("%", " %") if growth < 0.1 else f"{growth:.0%}".replace("%", " %")  # noqa: PLR2004


def data(number: int) -> str:
    """An amount of data: ``512 B``, ``1.5 MB``."""
    amount, units = float(number), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while amount >= 1000 and unit != "PB":  # noqa: PLR2004 - the units are powers of it
        amount, unit = amount / 1000, next(units)
    return f"{amount:.3g} {unit}"


def on_gpus(gpus: Sequence[int]) -> str:
    """The GPUs of a node by their ids, as they follow its name; nothing where none is known."""
    return f", GPU{'s' * (len(gpus) > 1)} {', '.join(map(str, gpus))}" if gpus else ""
