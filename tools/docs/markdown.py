"""Reads the project's Markdown files: links, anchors, code spans and blocks.

It owns the reading of Markdown as the project writes it (ATX headings, fenced blocks, inline links). It must never know
what a page is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
"""The repository."""

_SKIPPED = {"out", "node_modules"}
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\S*)[^\n]*\n(.*?)^\1\2`*\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s>]*(?:\([^()\s]*\))?[^()\s>]*)>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ITEM = re.compile(r"^ *(?:[*-]|\d+\.) +")
_WRITTEN = re.compile(r"<!-- (?!end).*?<!-- end[^\n]*-->", re.DOTALL)
_FULL_STOP = re.compile(r"(?<=[.!?:;])\)?\*{0,2}\s+(?=[A-Z(`*\d-])")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")


class Block(NamedTuple):
    """A fenced block: its language (may be empty) and its lines."""

    language: str
    text: str


def pages() -> list[Path]:
    """Every Markdown file of the repository. Hidden folders are not entered: an engine's files come and go in one."""
    tops = [top for top in ROOT.iterdir() if top.is_dir() and not top.name.startswith(".")]
    found = [*ROOT.glob("*.md"), *(file for top in tops for file in top.rglob("*.md"))]
    return sorted(file for file in found if not _SKIPPED.intersection(file.relative_to(ROOT).parts))


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def blocks(text: str) -> Iterator[Block]:
    """A page's fenced blocks."""
    for match in _FENCE.finditer(text):
        yield Block(match[3], match[4])


def sentences(text: str) -> Iterator[str]:
    """A page's sentences, list items and cells of tables, without what a tool writes; code spans are an X."""
    for paragraph in _paragraphs(prose(_WRITTEN.sub("", text))):
        plain = _SPAN.sub("X", _LINK.sub(lambda match: match[0].partition("](")[0].lstrip("!["), paragraph))
        yield from _FULL_STOP.split(plain)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, list items and cells, each as one line."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_row = line.lstrip().startswith("|")
        if lines and (not line.strip() or is_row or line.startswith("#") or _ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if is_row:
            yield from (cell.strip() for cell in line.strip().strip("|").split("|"))
        elif line.strip() and not line.startswith("#"):
            lines.append(_ITEM.sub("", line).strip())


def links(text: str) -> Iterator[str]:
    """The targets of a page's links and images, fenced blocks and code spans left out."""
    for match in _LINK.finditer(_SPAN.sub(lambda span: "x" * len(span[0]), prose(text))):
        yield match[1]


def local_links(text: str) -> Iterator[str]:
    """Those that name a file of the repository or an anchor."""
    return (link for link in links(text) if not re.match(r"[a-z]+:", link))


def spans(text: str) -> Iterator[str]:
    """A page's code spans."""
    return (match[1] for match in _SPAN.finditer(prose(text)))


def bold(text: str) -> Iterator[str]:
    """The bold texts of a page."""
    return (match[1] for match in _BOLD.finditer(prose(text)))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, spelled as GitHub does."""
    found: set[str] = set()
    for match in _HEADING.finditer(prose(text)):
        slug = slugged(match[1])
        number = 0
        while (unique := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(unique)
    return found


def slugged(heading: str) -> str:
    """A heading's anchor: lower case, spaces as hyphens, punctuation left out."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def relinked(text: str, change: Callable[[str], str]) -> str:
    """A page whose links have other targets."""
    return _LINK.sub(lambda match: match[0].replace(f"]({match[1]}", f"]({change(match[1])}"), text)
