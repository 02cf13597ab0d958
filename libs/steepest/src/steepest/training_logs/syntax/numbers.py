"""The patterns of numbers and names in logs, and their conversion.

It owns the bounded patterns that formats are built from. Every repetition in them has a bound, so a search costs at most a
constant per byte of any line: this keeps the standard library's engine, which is three to ten times as fast here as RE2,
linear.
"""

NUMBER = (
    rb"[-+]?(?:\d{1,40}+(?:\.\d{0,40}+)?(?:[eE][-+]?\d{1,4}+)?|\.\d{1,40}+(?:[eE][-+]?\d{1,4}+)?"
    rb"|(?i:nan|inf(?:inity)?))(?![A-Za-z0-9_]|\.\d)"
)
"""An integer, decimal, NaN or infinity that ends where a word ends (``54.01K`` and ``1.2.3`` do not match)."""

KEY = rb"(?<![\w./@-])[A-Za-z_][\w./@-]{0,99}+"
"""A name as printed by frameworks: ``val_loss``, ``train/box_loss``, ``Acc@1``."""


_MAX_STEP_DIGITS = 15
"""A longer integer is a hash or a time rather than a step, and no longer exact as a float."""

_MAX_NUMBER_CHARS = 64


def to_step(printed: bytes | None) -> int | None:
    """Reads printed text as a step; None if it is anything but a few digits."""
    if not printed or not printed.isdigit() or len(printed) > _MAX_STEP_DIGITS:
        return None
    return int(printed)


def to_epoch(printed: bytes | None) -> int | float | None:
    """Reads printed text as an epoch, an integer or a fraction."""
    epoch = to_number((printed or b"").decode("ascii", "replace"))
    if epoch is None or not abs(epoch) < 10**_MAX_STEP_DIGITS:
        return None
    return int(epoch) if epoch.is_integer() else epoch


def to_int(digits: bytes | None) -> int | None:
    """Reads digits that a pattern has matched; None stays None."""
    return None if digits is None else int(digits)


def to_number(text: str | float | bool | None) -> float | None:  # noqa: FBT001 - a JSON value
    """Reads a JSON value as a number; fairseq and Katib print numbers as strings.

    Returns:
        The number, or None: booleans and text that is not a number yield None.
    """
    if text is None or isinstance(text, bool):
        return None
    if isinstance(text, str) and ("_" in text or len(text) > _MAX_NUMBER_CHARS):
        return None
    try:
        return float(text)
    except (ValueError, OverflowError, TypeError):
        return None
