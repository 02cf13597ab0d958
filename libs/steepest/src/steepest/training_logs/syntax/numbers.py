"""How a number looks in a log, and how to read it.

Owns the bounded patterns that formats are built from. Every repetition in them has a bound, so a search costs at
most a constant for each byte of a line, whatever the line holds: that is what keeps the standard library's engine,
three to ten times as fast here as RE2, linear.
"""

NUMBER = (
    rb"[-+]?(?:\d{1,40}+(?:\.\d{0,40}+)?(?:[eE][-+]?\d{1,4}+)?|\.\d{1,40}+(?:[eE][-+]?\d{1,4}+)?"
    rb"|(?i:nan|inf(?:inity)?))(?![A-Za-z0-9_]|\.\d)"
)
"""A whole number, decimal, NaN or infinity that ends where a word ends (``54.01K`` and ``1.2.3`` are none)."""

KEY = rb"(?<![\w./@-])[A-Za-z_][\w./@-]{0,99}+"
"""A name as frameworks print them: ``val_loss``, ``train/box_loss``, ``Acc@1``."""


_MAX_STEP_DIGITS = 15
"""Beyond this a whole number is no step but a hash or a time, and no longer exact as a float."""

_MAX_NUMBER_CHARS = 64


def to_step(printed: bytes | None) -> int | None:
    """Reads printed text as a step; None where it is anything else than a few digits."""
    if not printed or not printed.isdigit() or len(printed) > _MAX_STEP_DIGITS:
        return None
    return int(printed)


def to_epoch(printed: bytes | None) -> int | float | None:
    """Reads printed text as an epoch, whole or with a fraction."""
    epoch = to_number((printed or b"").decode("ascii", "replace"))
    if epoch is None or not abs(epoch) < 10**_MAX_STEP_DIGITS:
        return None
    return int(epoch) if epoch.is_integer() else epoch


def to_int(digits: bytes | None) -> int | None:
    """Reads digits that a pattern has matched; None stays None."""
    return None if digits is None else int(digits)


def to_number(text: str | float | bool | None) -> float | None:  # noqa: FBT001 - what JSON holds
    """Reads a JSON value as a number; fairseq and Katib print numbers as strings.

    Returns:
        The number, or None where there is none: booleans and empty or other text are none.
    """
    if text is None or isinstance(text, bool):
        return None
    if isinstance(text, str) and ("_" in text or len(text) > _MAX_NUMBER_CHARS):
        return None
    try:
        return float(text)
    except (ValueError, OverflowError, TypeError):
        return None
