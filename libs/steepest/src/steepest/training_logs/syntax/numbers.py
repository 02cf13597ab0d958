"""Conversion of printed text to numbers: steps, epochs, values.

It owns what is too long or too large to be one.
"""

_MAX_STEP_DIGITS = 15
"""A longer integer is a hash or a time rather than a step, and no longer exact as a float."""

_MAX_NUMBER_CHARS = 64


def to_step(printed: str | bytes | None) -> int | None:
    """Reads printed text as a step, ``12`` or ``12.0``; None if it is anything else."""
    if not printed:
        return None
    text = printed.decode("ascii", "replace") if isinstance(printed, bytes) else printed
    if text.isdecimal() and text.isascii():  # the common case first
        return int(text) if len(text) <= _MAX_STEP_DIGITS else None
    whole, _, fraction = text.partition(".")
    if not whole.isascii() or not whole.isdigit() or len(whole) > _MAX_STEP_DIGITS or fraction.strip("0"):
        return None
    return int(whole)


def to_epoch(printed: bytes | None) -> int | float | None:
    """Reads printed text as an epoch, an integer or a fraction."""
    epoch = as_epoch(to_number((printed or b"").decode("ascii", "replace")))
    return int(epoch) if epoch is not None and epoch.is_integer() else epoch


def as_epoch(number: float | None) -> float | None:
    """A number as an epoch; None if it is none, or too large to be one."""
    return number if number is not None and abs(number) < 10**_MAX_STEP_DIGITS else None


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
