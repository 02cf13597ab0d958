"""Tells people what happens in a pool, a line an event, as the log of ``steepest up``.

It owns which events are news and how a line looks. It must never act on anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click

from steepest.cli.printing.output import tell
from steepest.describe import count, sentence
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.read_models.job_timeline import why_void
from steepest.read_models.run_timeline import is_news
from steepest.runtime.effector import Effector
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

NEWS: dict[type, str] = {
    c.PoolConfigured: "",
    c.NodeJoined: "",
    c.NodeLost: "red",
    c.NodeGone: "red",
    c.JobSubmitted: "",
    c.JobRejected: "red",
    c.JobCancelRequested: "",
    c.JobChangeRequested: "",
    c.NodeDrainRequested: "",
    c.JobPlaced: "green",
    c.CategoryChanged: "cyan",
    c.GoalReached: "green",
    c.FindingOpened: "red",
    c.FindingEnded: "green",
    c.TargetNotified: "",
    c.ReactionPlanned: "red",
    c.TrialJudged: "cyan",
    c.StayDecided: "",
    c.PromiseRevised: "",
    c.MigrationPlanned: "yellow",
    c.MigrationFinished: "yellow",
    c.MigrationFailed: "red",
    c.TransitionPlanned: "yellow",
    c.JobSuspended: "yellow",
    c.TransitionFinished: "yellow",
    c.TransitionFailed: "red",
    c.LimitsRefused: "red",
    c.StepFailed: "red",
    c.PlanAbandoned: "red",
    c.RetryPlanned: "yellow",
    c.JobEnded: "bold",
}
"""The events that are printed, and their colours; steps in between, and limits, which change often, are in ``events``."""

OUTCOMES = {c.Outcome.FINISHED: "green", c.Outcome.FAILED: "red", c.Outcome.CANCELLED: "yellow"}


class EventPrinter(Effector):
    """Prints what is new."""

    name = "teller"

    def __init__(self, printed_last: Callable[[str, int], Sequence[str]] = lambda *_: (), *, label: str = "") -> None:
        """Print a pool's events.

        Args:
            printed_last: Gives the last lines that a job's replica printed, which are shown where it failed.
            label: Begins each line: the pool's name, where there are several.
        """
        self._label = f"{label}: " if label else ""
        self._begun = self._is_new_pool = False
        self._joined: dict[str, c.NodeJoined] = {}
        self._printed_last = printed_last

    def caught_up(self, view: ClusterView) -> None:
        """Say what is there, once."""
        if not self._begun:
            self._begun, self._is_new_pool = True, not view.is_configured
            say(self._label + standing(view))

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Print an accepted event, and a plan that is void with the reason."""
        event = received.event
        refused = (
            isinstance(event, c.JobRejected) and not view.repeated
        )  # a second job of a name changes nothing either
        if (accepted and type(event) in NEWS and self._is_new(event)) or refused:
            say(self._label + sentence(event), _colour(event), received.at_ms)
            self._show_failure(view, event)
        elif not accepted and (void := why_void(view, received)):
            say(f"{self._label}{sentence(event)}: void ({view.refused}): {void}", "yellow", received.at_ms)

    def _is_new(self, event: c.ClusterEvent) -> bool:
        """Whether it says more than the lines before, of which the first says what is in force."""
        if isinstance(event, c.PoolConfigured) and self._is_new_pool:
            self._is_new_pool = False
            return False
        return is_news(self._joined, event)

    def _show_failure(self, view: ClusterView, event: c.ClusterEvent) -> None:
        if isinstance(event, c.JobEnded) and event.outcome is c.Outcome.FAILED:
            for line in self._printed_last(event.job, view.jobs[event.job].stop_replica):
                tell((f"{'':10}{event.job} printed: {click.unstyle(line)}", {"dim": True}))


def standing(view: ClusterView) -> str:
    """The state that a system finds when it starts."""
    running = sum(job.phase is Phase.RUNNING for job in view.jobs)
    waiting = sum(job.is_queued for job in view.jobs)
    if not running and not waiting:
        return "caught up: no job waits or runs yet"
    return f"caught up: {count(running, 'job')} running, {count(waiting, 'job')} waiting; what runs is taken over"


def say(text: str, colour: str = "", at_ms: int | None = None) -> None:
    """A line with its time; colours only where a terminal shows them."""
    clock = time.strftime("%H:%M:%S", time.localtime(None if at_ms is None else at_ms / 1000))
    style = {"bold": True} if colour == "bold" else {"fg": colour or None}
    tell((clock, {"dim": True}), "  ", (text, style))


def _colour(event: c.ClusterEvent) -> str:
    return OUTCOMES[event.outcome] if isinstance(event, c.JobEnded) else NEWS[type(event)]
