"""What only knowledge can tell: every module here with a ``FORMAT`` reads a structure that evidence cannot.

It owns nothing of the stream: a format turns a line into statements, which are treated as all others.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from steepest.training_logs.statement import Statement
from steepest.training_logs.syntax.plan import ShapePlan


class Format(NamedTuple):
    """One format.

    Attributes:
        name: its name for ``--format`` and in records.
        shape: an example line, for people.
        needle: a text that each of its lines contains.
        read: the statement of a line at its place in the source (line and end), given and giving the format's note: None if
            the line is not of this format; one without metrics if it says nothing.
        plan: of a line that was read, the shape, the numbers and what they are, so that more of them are read the short way;
            None if a line has no such shape.
        is_bare: whether nothing stands before its lines, so that a job that names it need not wait until that is known.
    """

    name: str
    shape: str
    needle: str
    read: Callable[[str, int, int, dict[str, str]], Statement | None]
    plan: Callable[[str], tuple[str, list[str], ShapePlan] | None] = lambda _: None
    is_bare: bool = False


@cache
def all_formats() -> tuple[Format, ...]:
    """All formats, by name."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))
