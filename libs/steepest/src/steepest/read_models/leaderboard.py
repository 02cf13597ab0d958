"""The order of a sweep's trials: by the highest rung, and at one rung by the value there."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.policies import rising
from steepest.read_models.job_rows import JobRow


def leaderboard(trials: Sequence[JobRow]) -> list[JobRow]:
    """The trials of one array, the best first; those that have reached no rung are last, in their order."""
    return sorted(trials, key=_standing)


def _standing(trial: JobRow) -> tuple[int, bool, float]:
    rung = max(trial.rungs, default=-1)
    return -rung, *rising.best_first(trial.rungs.get(rung), is_rising=trial.rises)
