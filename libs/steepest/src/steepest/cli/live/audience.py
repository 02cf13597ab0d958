"""Who watches a run: a terminal that shows a live view, a pipe that gets lines, a program that wants its end only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.console import Console
from rich.live import Live

from steepest.cli.live.picture import picture
from steepest.describe import sentence
from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.read_models.run_timeline import RunTimeline

REFRESH_S = 0.25


class NoAudience:
    """Sees nothing of the run itself."""

    def tell(self, timeline: RunTimeline, received: Received[ClusterEvent]) -> None:
        """Pass over it."""

    async def watch(self, timeline: RunTimeline) -> None:
        """Wait for nothing."""


class Lines:
    """Plain lines, one an event, for a pipe or a file."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo

    def tell(self, timeline: RunTimeline, received: Received[ClusterEvent]) -> None:
        """Write the event in words, with the seconds of the run."""
        self._echo(f"{(received.at_ms - timeline.began_ms) / 1000:6.1f} s  {sentence(received.event)}")

    async def watch(self, timeline: RunTimeline) -> None:
        """Lines come as events do."""


class Screen:
    """The live view on a terminal, which is as it was before once the view is over."""

    def __init__(self, console: Console, title: str) -> None:
        """``title`` says at the top what is shown."""
        self._console = console
        self._title = title

    def tell(self, timeline: RunTimeline, received: Received[ClusterEvent]) -> None:
        """It is in the next picture."""

    async def watch(self, timeline: RunTimeline) -> None:
        """Draw the run at a steady rate, until cancelled."""
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while True:
                size = self._console.size
                live.update(picture(timeline, size.width, size.height, self._title), refresh=True)
                await asyncio.sleep(REFRESH_S)
