"""Strips the prefixes that other programs put before a line.

It owns the patterns of those prefixes (container runtimes, kubectl, MPI, torchrun, absl, Python's logging, launchers) and
which of them name the process that printed the line. It must never know a training framework.
"""

import re

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?:]{0,40}+[ -/]{0,4}+[@-~]|\][^\x07\x1b]{0,200}+(?:\x07|\x1b\\)?|[@-Z\\^_=>])")
_DATE = rb"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9}+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = rb"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)"

_BY_FIRST_BYTE: dict[int, list[bytes]] = {}


def _prefix(first_bytes: bytes, pattern: bytes) -> None:
    for first in first_bytes:
        _BY_FIRST_BYTE.setdefault(first, []).append(pattern)


_DIGITS = b"0123456789"
# Kubernetes CRI: time, stream, full or partial.
_prefix(_DIGITS, rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ")
# kubectl logs with several containers or pods.
_prefix(b"[", rb"\[(pod/[^\]\s]{1,400})\] ")
# Open MPI's --tag-output, then elastic Horovod.
_prefix(b"[", rb"\[(\d{1,6}(?:,\d{1,6})?)\]<std(?:out|err)>: {0,4}")
# torchrun with --tee or --redirects.
_prefix(b"[", rb"\[([A-Za-z_]{1,40}\d{1,6})\]: ?")
# The Kubeflow launcher of TFJob and MPIJob images.
_prefix(b"DIWEC", _LEVEL + rb"\|" + _DATE + rb"\|[^|]{1,300}+\|\d{1,6}\| ?")
# absl and glog.
_prefix(b"IWEF", rb"[IWEF]\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,20} [\w.\-/]{1,200}:\d{1,6}\] ")
# Python's logging: basicConfig's default, then a time of its own.
_prefix(b"DIWEC", _LEVEL + rb":[\w.\-]{1,100}:(?:\d\d:\d\d:\d\d )?")
_prefix(b"[", rb"\[" + _DATE + rb"(?: [\w./+-]{1,40})?\][ \t]{0,4}")
_prefix(_DIGITS, _DATE + rb"[ \t]{0,4}(?:[|,:-][ \t]{1,4})?")
_prefix(b"[", rb"\[\d\d:\d\d:\d\d\] ")
_prefix(_DIGITS, rb"\d\d/\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?[ \t]{1,4}(?:[|-][ \t]{1,4})?")
_prefix(b"[DIWEC", rb"\[?" + _LEVEL + rb"\]?(?:[ \t]{0,4}[|:-][ \t]{1,4}|[ \t]{1,4})")
_prefix(b"[", rb"\[[\w./\-]{1,200}:\d{1,6}(?::\w{1,100})?\][ \t]{0,4}")
_prefix(b" ", rb" {1,4}" + _LEVEL + rb" - ")
_prefix(b"-|", rb"[|-][ \t]{1,4}")
_prefix(b"abcdefghijklmnopqrstuvwxyz", rb"[a-z_][\w.]{0,100}+ - " + _LEVEL + rb" - ")

# The file and function that a script's own logger names.
_prefix(b"abcdefghijklmnopqrstuvwxyz", rb"[\w./-]{1,200}+(?<=\.py):\w{1,100}+: ")

# One pattern for each first byte of a line: most lines of a training log are then tried against no pattern or one.
# The only capturing groups are those around the name of a process.
_PATTERNS = {first: re.compile(b"|".join(patterns)) for first, patterns in _BY_FIRST_BYTE.items()}

_WORD = re.compile(rb"[A-Z][a-z]{2}")
"""The start of most lines of a training log, which is never a prefix."""

_MAX_PREFIXES = 12
"""Real lines have up to four (runtime, pod, rank, logger); the bound limits the work on a line of prefixes only."""


def strip_prefixes(line: bytes) -> tuple[bytes, bytes]:
    """Strips escape sequences and all prefixes.

    Args:
        line: one line without its newline.

    Returns:
        The text that the training process printed, and the process (``b""`` if no prefix names it).
    """
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    source = b""
    at = 0
    if _WORD.match(line):
        return line, source
    for _ in range(_MAX_PREFIXES):
        pattern = _PATTERNS.get(line[at]) if at < len(line) else None
        match = pattern.match(line, at) if pattern is not None else None
        if match is None:
            break
        at = match.end()
        if match.lastindex is not None:
            source = match[match.lastindex]
    return (line[at:] if at else line), source
