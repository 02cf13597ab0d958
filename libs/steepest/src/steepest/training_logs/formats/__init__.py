"""The log formats: every module here that holds a ``FORMAT`` is one, found without being listed anywhere.

Owns the order in which formats are tried: by rank, then by name. Must never know how any of them reads.
"""

import importlib
import pkgutil
from functools import cache

from steepest.training_logs.format import Format


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format, those that one line is enough to recognise first."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    formats: list[Format] = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return tuple(sorted(formats, key=lambda one: (one.rank, one.name)))
