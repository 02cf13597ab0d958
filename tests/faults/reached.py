"""What a probe calls: it notes that a mutant would act differently here. Probes are in copies of the library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
REACHED: dict[str, None] = {}
"""The mutants that would have acted differently since it was cleared."""


def differs(mutant: str, value: T, mutated: Callable[[], object]) -> T:
    """The value of an expression, after a look at what the mutant would have in its place."""
    if mutant not in REACHED:
        try:
            is_same = mutated() == value
        except Exception:  # noqa: BLE001 - the mutant would have failed where the unharmed code does not
            is_same = False
        if not is_same:
            REACHED[mutant] = None
    return value


def passes(mutant: str) -> None:
    """A statement follows that the mutant has not, or has in another form."""
    REACHED[mutant] = None
