"""Explains to people why a line that mentions a loss was not read.

It owns the reasons. It must never decide what is read.
"""

import re

_REASONS = (
    (
        re.compile(rb"(?i:skipping step|overflow|skipped iter\w{0,6}: {1,8}[1-9])"),
        "a step that overflowed and was skipped",
    ),
    (re.compile(rb"(?i:loss[ _-]?scal)"), "says the loss scale, not a loss"),
    (re.compile(rb"(?i:\bbest\b|for final step|train_runtime|improved from|final[ _]loss)"), "sums the run up"),
    (
        re.compile(rb"(?i:namespace\(|config|\.{5}|--\w|args\b)|: ?(?:True|False|None)\b|=(?:True|False|None)"),
        "settings",
    ),
    (re.compile(rb"\b(?:def|return|import|print|self|lambda|class)\b|[{}]{2}|==|\)\s?:"), "source code or a trace"),
)
_NUMBER = re.compile(rb"(?i:loss)[^\r\n]{0,40}?\d|(?i:loss\W{0,6}(?:nan|inf))")

REPEATED = "repeats a step that was read already"
OTHER_FORMAT = "another shape than the stream's format"


def reason_for(line: bytes) -> str:
    """The most likely reason for skipping a line that contains the word "loss"."""
    if not _NUMBER.search(line):
        return "no number beside the word"
    return next((reason for pattern, reason in _REASONS if pattern.search(line)), OTHER_FORMAT)
