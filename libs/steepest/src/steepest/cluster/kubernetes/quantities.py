"""Quantities as Kubernetes writes them: ``1500m``, ``2Gi``, ``1e3``."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_LONGEST = 64
_MOST = Decimal(2**63 - 1)


Quantity = str | int | float  # users write plain numbers too, and no server makes text of them in all kinds


def value(quantity: Quantity) -> Decimal | None:
    """The number that a quantity stands for; None if it is none, negative, or larger than Kubernetes allows."""
    quantity = str(quantity)
    if len(quantity) > _LONGEST:
        return None
    number, factor = quantity, Decimal(1)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if quantity.endswith(suffix):
            number, factor = quantity.removesuffix(suffix), _SUFFIXES[suffix]
            break
    if not number.isascii() or "_" in number:
        return None
    try:
        found = Decimal(number)
        if not found.is_finite() or found.adjusted() > _LONGEST or found < 0:
            return None
        found *= factor
    except InvalidOperation:
        return None
    return found if found <= _MOST else None


def millis(quantity: Quantity) -> int | None:
    """In thousandths, rounded up as Kubernetes does; None if it is no quantity."""
    found = value(quantity)
    return None if found is None else math.ceil(found * 1000)


def mebibytes(quantity: Quantity, *, up: bool = False) -> int | None:
    """In MiB, rounded down, or ``up``; None if it is no quantity."""
    found = value(quantity)
    return None if found is None else math.ceil(found / 2**20) if up else int(found // 2**20)
