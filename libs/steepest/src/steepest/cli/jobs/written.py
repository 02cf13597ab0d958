"""Values as people write them in options."""

from __future__ import annotations

import math

import click


def variable(text: str, option: str = "--env") -> tuple[str, str]:
    """The name and the value of K=V.

    Raises:
        UsageError: It is none.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{option} {text}: write it like SEED=7")
    return name, value


def number_in(text: str) -> float | None:
    """The finite number that a text is; None: it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
