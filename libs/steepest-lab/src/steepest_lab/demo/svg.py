"""The picture as SVG: one file that shows the same everywhere and asks no one for anything.

Rich's own template loads a font from a content delivery network; this one names the reader's monospace font, and every run
of text has its length, so that columns stay aligned with any font.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from steepest.cli.live.picture import picture
from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.read_models.run_timeline import RunTimeline
from steepest.view.state import CATEGORIES

WIDTH = 112
HEIGHT = 40

THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (48, 54, 61),
        (255, 123, 114),
        (63, 185, 80),
        (227, 179, 65),
        (88, 166, 255),
        (210, 168, 255),
        (57, 197, 207),
        (201, 209, 217),
    ],
    [
        (72, 79, 88),
        (255, 161, 152),
        (86, 211, 100),
        (242, 204, 96),
        (121, 192, 255),
        (226, 197, 255),
        (86, 212, 221),
        (240, 246, 252),
    ],
)
"""Background, foreground, the eight colours and their bright ones; dark, with enough contrast for small letters."""

FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>Steepest: jobs on four nodes, their losses, and why they move</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>
<g transform="translate(20, 20)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

MOVES_TELLING = 4
"""Moves before the moment that is drawn; more of them show nothing more."""


LETTER_PX = 12.2
"""Width of a letter in Rich's SVG: its height of 20 by its aspect ratio of 0.61."""

_TEXT = re.compile(r'x="(?P<x>[\d.]+)"(?P<y>[^>]*) textLength="[\d.]+"(?P<rest>[^>]*)>(?P<text>[^<]*)</text>')
_BLANK = "&#160;"


def svg(timeline: RunTimeline) -> str:
    """The picture of a timeline as SVG."""
    console = Console(record=True, width=WIDTH, height=HEIGHT, file=io.StringIO(), force_terminal=True)
    console.print(picture(timeline, WIDTH, HEIGHT))
    return _TEXT.sub(_without_blanks, console.export_svg(theme=THEME, code_format=FORMAT, unique_id="demo"))


def _without_blanks(text: re.Match[str]) -> str:
    """A run of text without blanks at its ends, which some renderers drop and then stretch the rest over its length."""
    letters = html.unescape(text["text"])
    shown = letters.strip("\xa0")
    x = float(text["x"]) + LETTER_PX * (len(letters) - len(letters.lstrip("\xa0")))
    escaped = html.escape(shown).replace("\xa0", _BLANK)
    return f'x="{x:.1f}"{text["y"]} textLength="{LETTER_PX * len(shown):.1f}"{text["rest"]}>{escaped}</text>'


def most_telling(records: Sequence[Received[ClusterEvent]]) -> RunTimeline:
    """The timeline up to the moment that shows most: moves and a stay are done, all categories are held, many jobs learn."""
    timeline, best, end = RunTimeline(), (-1, -1, -1), len(records)
    for place, received in enumerate(records, 1):
        if timeline.fold(received) and (now := _telling(timeline)) > best:
            best, end = now, place
    return RunTimeline.of(records[:end])


def _telling(timeline: RunTimeline) -> tuple[int, int, int]:
    done = [move for move in timeline.moves if move.done]
    decided = min(len(done), MOVES_TELLING) + min(timeline.stays, 1)
    nodes = list(timeline.view.nodes)
    held = [any(node.replicas[place] for node in nodes) for place in range(len(CATEGORIES))]
    return decided, sum(held), sum(node.growing for node in nodes)
