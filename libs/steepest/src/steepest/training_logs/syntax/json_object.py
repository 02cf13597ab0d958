"""Decodes one JSON object on a line, hostile or not.

It owns the decoding and its limits. It must never know what the fields mean.
"""

import json
from collections.abc import Iterator
from typing import Any

from steepest.training_logs.syntax.numbers import to_number


def parse_object(text: str) -> dict[str, Any] | None:
    """Decodes an object; NaN and Infinity, which Python writes and JSON lacks, are read.

    Returns:
        None for anything that is not one complete object.
    """
    if text[:1] != "{" or "}" not in text[-3:]:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def numbers(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields whose value is a number, or text that is one, as pairs like those of a printed line."""
    for key, value in fields.items():
        if isinstance(value, int | float | str) and (number := to_number(value)) is not None:
            yield key, repr(number)


def integer(value: object) -> int | None:
    """An integer below 2**53, whether written as one, as ``12.0`` or as text; otherwise None."""
    number = to_number(value) if isinstance(value, int | float | str) else None
    if number is None or not abs(number) < 1 << 53 or number != int(number):
        return None
    return int(number)
