"""``--until`` and ``--patience`` of ``steepest submit``: a job's goal from its written form."""

from __future__ import annotations

import math
import re

import click

from steepest.events.cluster import Goal

_WRITTEN = re.compile(r"\s*([^\s<>=]+)\s*([<>])\s*([^\s<>=]+)\s*")


def goal_of(until: str | None, patience: int | None, metric: str) -> Goal | None:
    """The goal of a job that is judged by ``metric``; None where neither option is given.

    Raises:
        UsageError: ``until`` is no condition, or one on another metric than that which the job is judged by.
    """
    if until is None:
        return None if patience is None else Goal(patience=patience)
    written = _WRITTEN.fullmatch(until)
    bound = _number(written[3]) if written else None
    if written is None or bound is None:
        raise click.UsageError(f"--until {until}: write it like 'loss<0.1' or 'accuracy>0.9'")
    if written[1] != metric:
        raise click.UsageError(f"--until {until}: the job is judged by {metric}; add --metric {written[1]}")
    if written[2] == "<":
        return Goal(below=bound, patience=patience)
    return Goal(above=bound, patience=patience)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
