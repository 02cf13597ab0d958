"""What other programs put before a line (times, hosts, containers, ranks, levels), learned from the first lines of a stream.

It owns which leading tokens are a prefix, and which of them name the process that printed the line. It must never know a
launcher by name.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from steepest.training_logs.syntax.words import LEVELS, role_of

WINDOW = 64
"""Lines from which prefixes are learned."""

_MOST_KINDS, _MOST_TOKENS = 6, 10
_LOOK_AHEAD = 400
_TOKEN = re.compile(
    r"\s{0,8}(\[[^\]\s]{1,60}(?: {1,3}[^\]\s]{1,40}){0,3}\](?:<\w{1,10}>)?:?|\([^)]{1,120}\):?"
    r"|[^\s\[\](){}]{1,80}(?:\[\d{1,8}\]:?|\])?|\S{1,80})"
)
_CLOCK = re.compile(r"\d:\d\d|\d{4}-\d\d-\d\d|^[\[(]?\d{2,4}/\d\d/\d\d")
_DIGITS = re.compile(r"\d{1,40}")
_NUMBER = re.compile(r"[\[(#]?\d[\d,.]{0,40}[\])]?[:|,]?")
_LETTERS = re.compile(r"[A-Za-z_]{2,60}")
_FILE = re.compile(
    r"[\[(]?(?:[\w./-]{1,200}\.(?:py|cc|cpp|h|scala|java|go):\w{1,80}(?::\w{1,80})?"
    r"|[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){1,6}:\d{1,6}|[A-Za-z_][\w.]{0,80}:[\w<>]{1,60}:\d{1,6}"
    r"|(?:[A-Z][a-z0-9]{1,40}){2,8}\$?:\d{2,6})[\])]?:?"
)
_CLOSED = re.compile(r"[:\]|>-]$")
_TAG = re.compile(r"(?i)<std|rank|worker|pid=|node|host|gpu|pod/|replica|process")
_POD = re.compile(r"[a-z0-9]{1,40}(?:-[a-z0-9]{1,40}){1,9}")
_MARKS = ("-", "|", ">", "::", "--")
_ANY_FILE = "\x04"
_CONTENT = ("loss", "epoch", "step", "iter", "batch", "quality", "global")

Tokens = list[str]


def _tokens(text: str) -> Tokens:
    return [found[1] for _, found in zip(range(_MOST_TOKENS), _TOKEN.finditer(text[:_LOOK_AHEAD]), strict=False)]


def _skeleton(token: str) -> str:
    """A token without what differs from line to line: its digits, or the place in a source file."""
    return _ANY_FILE if _FILE.fullmatch(token) else _DIGITS.sub("0", token)


def _kind(token: str) -> str:
    """``time``, ``word``, ``file``, ``source`` (a word with a number), ``number``: parts of a prefix; or ``content``."""
    if _CLOCK.search(token):
        return "time"
    if _NUMBER.fullmatch(token):
        return "number"
    if _FILE.fullmatch(token):
        return "file"
    has_digits = bool(_DIGITS.search(token))
    if (
        token[0] in "'\"{"
        or ("=" in token and token[0] != "(")
        or (token.count("/") == 1 and has_digits)
        or "%" in token
    ):
        return "content"
    if not re.search(r"\w", token):
        return "word" if token in _MARKS else "content"
    bare = token.strip("[]():,|.")
    if bare.lower() in LEVELS:
        return "word"
    roles = [role_of(bare), *(role_of(word) for word in _LETTERS.findall(token))]
    if has_digits and token[0] != "(":
        return "content" if any(role.kind in _CONTENT for role in roles) else "source"
    if token[0] == "(" and "pid=" in token:
        return "source"
    if len(bare) > 30 or any(role.kind not in ("other", "skip") or role.split for role in roles):
        return "content"
    return "word" if token[-1] in ":]|" or (bare.isascii() and len(bare) <= 24) else "content"


def learn(lines: Sequence[str]) -> list[str]:
    """Patterns of the prefixes of some lines, longest first; their groups name the process."""
    rows = [tokens for line in lines if (tokens := _tokens(line))]
    groups: dict[str, list[Tokens]] = {}
    for row in rows:
        groups.setdefault(_skeleton(row[0]), []).append(row)
    largest = sorted(groups.values(), key=len, reverse=True)[:_MOST_KINDS]
    found = [
        (len(prefix), _pattern(prefix))
        for group in largest
        if len(group) >= 2 and len(group) * 6 >= len(rows) and (prefix := _prefix(group))
    ]
    return [pattern for _, pattern in sorted(found, reverse=True)]


def _prefix(group: list[Tokens]) -> list[tuple[str, str]]:
    """The leading tokens, as skeleton and kind, that nine in ten lines share and that are no content."""
    prefix: list[tuple[str, str]] = []
    live = group
    for at in range(_MOST_TOKENS - 1):
        counts = Counter(_skeleton(row[at]) for row in live if len(row) > at)
        skeleton, times = counts.most_common(1)[0] if counts else ("", 0)
        if not counts or times < 0.9 * len(live) or (at == 0 and not re.search(r"\w|\x04", skeleton)):
            break
        live = [row for row in live if len(row) > at and _skeleton(row[at]) == skeleton]
        kind = _common_kind([row[at] for row in live], [row[at + 1 : at + 2] for row in live], prefix)
        if kind == "content":
            break
        prefix.append((skeleton, kind))
    return _trimmed(prefix, live)


def _common_kind(tokens: list[str], then: list[Tokens], prefix: list[tuple[str, str]]) -> str:
    kinds = {_kind(token) for token in tokens}
    if "content" in kinds:
        return "content"
    if kinds in ({"time"}, {"file"}):
        return kinds.pop()
    if prefix and prefix[-1][1] == "time" and all(after and _FILE.fullmatch(after[0]) for after in then):
        return "thread"  # its number changes from line to line of one process
    if kinds & {"number", "source"}:
        falls = sum(_DIGITS.findall(second) < _DIGITS.findall(first) for first, second in pairwise(tokens))
        distinct = len(set(tokens))
        cycle = distinct * 2 <= len(tokens) + 1 and falls * 4 >= len(tokens) // 2
        if distinct > 1 and not (cycle or (kinds == {"source"} and _TAG.search(tokens[0]))):
            return "content"
    return "number" if "number" in kinds else "source" if "source" in kinds else kinds.pop()


def _trimmed(prefix: list[tuple[str, str]], live: list[Tokens]) -> list[tuple[str, str]]:
    """Gives back words that may belong to the line itself, and a bare number that only one kind of line follows."""

    def after() -> set[str]:
        return {_skeleton(row[len(prefix)]) if len(row) > len(prefix) else "" for row in live}

    while prefix and prefix[-1][1] == "word" and not _CLOSED.search(prefix[-1][0]) and len(after()) <= 1:
        if len(prefix) > 1 and prefix[-2][1] == "source" and _POD.fullmatch(prefix[-2][0]):
            break  # a pod and its container
        prefix.pop()
    kinds = [kind for _, kind in prefix]
    numbers = [at for at, kind in enumerate(kinds) if kind == "number" and kinds[at + 1 : at + 2] != ["time"]]
    if numbers and len(after()) < 2:
        del prefix[numbers[0] :]
    firm = ("source", "number", "time", "file", "thread")
    if any(kind in firm or text[0] == "[" or text[-1] in ":|" for text, kind in prefix):
        return prefix
    return []


def _pattern(prefix: list[tuple[str, str]]) -> str:
    parts = []
    for skeleton, kind in prefix:
        body = _FILE.pattern if skeleton == _ANY_FILE else re.sub("0", r"\\d{1,20}", re.escape(skeleton))
        parts.append(f"({body})" if kind in ("source", "number") else f"(?:{body})")
    return r"\s{0,8}" + r"\s{0,8}".join(parts) + r" ?"


def of_process(pattern: str, names: Sequence[str]) -> str:
    """The pattern of a prefix of one process."""
    rest = iter(names)
    return _GROUP.sub(lambda _: re.escape(next(rest)), pattern)


_GROUP = re.compile(r"(?<!\\)\((?!\?)(?:\\.|[^()\\]){0,1000}\)")
