"""How much later jobs end than in another run. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest_lab.sim.result import LATE


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """The tail of a comparison.

    Attributes:
        than: From which share of its completion time on a job is late.
        jobs: How many are.
        of: How many ended in both runs.
        worst: How much later the most delayed one ends, as a share; below 0 where all end sooner.
        worst_job: Its name.
    """

    than: float = LATE
    jobs: int
    of: int
    worst: float
    worst_job: str


def lateness(times_s: Mapping[str, float], beside_s: Mapping[str, float]) -> Lateness | None:
    """Compare completion times by job; None where no job has one in both."""
    return tail_of({job: time_s / beside_s[job] - 1 for job, time_s in times_s.items() if beside_s.get(job)})


def tail_of(later: Mapping[str, float]) -> Lateness | None:
    """The tail of how much later each job ended, as a share of its completion time there; None without any job."""
    if not later:
        return None
    worst_job = max(later, key=later.__getitem__)
    late = sum(share > LATE for share in later.values())
    return Lateness(jobs=late, of=len(later), worst=later[worst_job], worst_job=worst_job)


def in_words(late: Lateness) -> str:
    """``Jobs more than 5 % later than under fair sharing: 1 of 12; the most delayed one is gru-1, by 12 %``."""
    text = f"Jobs more than {whole(late.than)} later than under fair sharing: {late.jobs} of {late.of}"
    return text + (f"; the most delayed one is {late.worst_job}, by {whole(late.worst)}" if late.worst > 0 else "")


def whole(share: float, *, signed: bool = False) -> str:
    """``12 %`` of a share, or ``+12 %``."""
    return f"{100 * share:{'+' if signed else ''}.0f} %"
