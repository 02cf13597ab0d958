"""Regular expressions that a job provides, matched in linear time by RE2.

It owns the only call of google-re2, which has no types and reports a bad pattern as bytes.
"""

from collections.abc import Callable

import re2

from steepest.errors import InputError
from steepest.training_logs.records import Split

_MAX_MEMORY_BYTES = 8 << 20
"""Memory limit of one pattern's automaton: RE2's own default, which is ample for a line."""


class PatternError(InputError):
    """A job's regular expression is invalid; the message has the pattern and the reason."""

    code = "bad-log-pattern"


Groups = dict[str, bytes | None]


def compile_pattern(pattern: str) -> Callable[[bytes], list[Groups]]:
    """Compiles a job's own expression.

    Args:
        pattern: RE2 syntax, with a group ``value`` or at least one group, the first being the value; further groups
            ``step``, ``epoch``, ``metric`` and ``split`` are optional.

    Returns:
        A function that yields the named groups of every match in a line.

    Raises:
        PatternError: The pattern is not an RE2 expression, or has no group.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise PatternError(
            f"pattern {pattern!r}: {_reason(error)}", hint="write it in RE2's syntax, which has no look-around"
        ) from None
    if compiled.groups < 1:
        raise PatternError(f"pattern {pattern!r}: has no group", hint="put a group around the value: 'loss is (\\S+)'")
    names = {number: name.decode() for name, number in compiled.groupindex.items()}
    if "value" not in names.values():
        names[1] = "value"

    def find(line: bytes) -> list[Groups]:
        return [{name: match.group(number) for number, name in names.items()} for match in compiled.finditer(line)]

    return find


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else "is not understood"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def split_of(text: bytes | None) -> Split:
    """The split that a pattern's ``split`` group names; training unless it says otherwise."""
    return "eval" if text and text[:3].lower() in (b"val", b"tes", b"eva", b"dev") else "train"
