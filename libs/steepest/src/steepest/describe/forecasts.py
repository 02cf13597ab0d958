"""Sentences for a job's measured epochs, its predicted run time, predicted preemptions, and promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steepest.describe.units import count, data, percent, span
from steepest.events import cluster as c


def _epoch(event: c.EpochMeasured) -> str:
    unsure = "" if event.confidence == 1 else f", {percent(event.confidence)} sure"
    return (
        f"{event.job} read its data set in {span(event.epoch_ms)} (epoch {event.epoch} of incarnation "
        f"{event.incarnation}, {data(event.epoch_bytes)}{unsure})"
    )


def estimate(found: c.PredictedSpan) -> str:
    """A predicted span: ``41 s (38 s to 50 s)``."""
    return f"{span(found.p50)} ({span(found.low)} to {span(found.high)})"


_METHODS: Mapping[c.PredictionMethod, str] = {
    c.PredictionMethod.EPOCHS: "from its own epochs",
    c.PredictionMethod.TIME_MODEL: "from the time model of {model}, fitted to {profiles}",
    c.PredictionMethod.HISTORY: "from {profiles} of {model}",
    c.PredictionMethod.TOTALS: "from announced totals and its pace",
}


def _predicted(event: c.RunTimePredicted) -> str:
    if event.remaining is None or event.method not in _METHODS:
        return f"{event.job}: nothing says how long it runs"
    how = _METHODS[event.method].format(model=event.model, profiles=count(event.profiles, "profiled job"))
    return f"{event.job} is predicted to run for another {estimate(event.remaining)}, {how}"


def _overhead_predicted(event: c.OverheadPredicted) -> str:
    took = "an unknown time" if event.predicted_ms is None else span(event.predicted_ms)
    why = f" ({event.because})" if event.because else ""
    return f"{event.job}: its {event.kind} is predicted to take {took}{why}"


def _overhead_measured(event: c.OverheadMeasured) -> str:
    said = "nothing was predicted" if event.predicted_ms is None else f"{span(event.predicted_ms)} predicted"
    return f"{event.job}: its {event.kind} took {span(event.measured_ms)}, {said}"


def _promised(event: c.PromiseRevised) -> str:
    due = "no end any more" if event.due_in_ms is None else f"its end in {span(event.due_in_ms)}"
    put_off = f"; put off {count(event.tier, 'time')}: {event.reason}" if event.reason else ""
    ahead = ", ".join(f"{one.job} ({'?' if one.left_ms is None else span(one.left_ms)} left)" for one in event.ahead)
    before = f"; before it: {ahead}" if ahead else ""
    return f"{event.job} is promised {due} (under fair sharing in {span(event.fair_in_ms)}{put_off}{before})"


SENTENCES: Mapping[type, Callable[[Any], str]] = {
    c.EpochMeasured: _epoch,
    c.RunTimePredicted: _predicted,
    c.OverheadPredicted: _overhead_predicted,
    c.OverheadMeasured: _overhead_measured,
    c.PromiseRevised: _promised,
}
