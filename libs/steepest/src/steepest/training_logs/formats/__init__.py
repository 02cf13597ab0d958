"""The log formats: every module here with a ``FORMAT`` is one; there is no list to maintain.

It owns the order in which formats are tried: by rank, then by name. It must never know how any of them reads.
"""

import importlib
import pkgutil
from functools import cache

from steepest.training_logs.format import Format


@cache
def all_formats() -> tuple[Format, ...]:
    """All formats; those that are recognised by one line come first."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    formats: list[Format] = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return tuple(sorted(formats, key=lambda one: (one.rank, one.name)))
