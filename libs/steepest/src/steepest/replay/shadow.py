"""Runs a candidate policy on the live log: it decides and performs nothing.

It owns which records go to whom, and the report job by job. It must never append anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from steepest.errors import UndecodableError
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import Received
from steepest.log.base import Record
from steepest.policies.specon.categorizer import Categorizer
from steepest.replay.shadow_growth import CategoryHistory, ShadowGrowth, earlier_ms
from steepest.replay.shadow_plans import Change, PlanDifference, ShadowPlans
from steepest.runtime.decode import received


class ShadowedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job under both.

    Attributes:
        live: How its growth was judged.
        candidate: How the candidate would have judged it.
        plans: Where they would have placed, moved or limited it otherwise, in order.
        earlier_ms: By how much earlier the candidate would have asked for another place first; None where one never did.
    """

    job: str
    live: CategoryHistory
    candidate: CategoryHistory
    plans: tuple[PlanDifference, ...] = ()
    differs: bool
    earlier_ms: int | None = None


class Shadow:
    """One pool, and the losses of its jobs."""

    def __init__(self, change: Change) -> None:
        """``change``: the pool's parameters under the candidate."""

        def changed(specon: SpeConParameters) -> SpeConParameters:
            return change(PoolParameters(specon=specon)).specon

        self._growth = ShadowGrowth(changed)
        self._plans = ShadowPlans(change)

    def hear(self, record: Record) -> None:
        """Take in the next record of ``loss`` or ``cluster``; those of each partition in order.

        Raises:
            LogVersionError: The log asks for a newer reader.
        """
        try:
            event: Received[Any] = received(record)
        except UndecodableError:
            if record.at.topic != Categorizer.topic:
                self._plans.skip(record.offset)
            return
        if record.at.topic == Categorizer.topic:
            self._growth.decide(event)
        else:
            self._growth.note(event)
            self._plans.decide(event)

    def comparisons(self) -> Sequence[ShadowedJob]:
        """Every job that the pool knows, by name."""
        found: dict[str, list[PlanDifference]] = {}
        for (job, _), difference in self._plans.differences.items():
            found.setdefault(job, []).append(difference)
        named = {*self._growth.live, *self._growth.candidate, *found, *(job.name for job in self._plans.view.jobs)}
        return [self._comparison(job, found.get(job, ())) for job in sorted(named)]

    def _comparison(self, job: str, plans: Sequence[PlanDifference]) -> ShadowedJob:
        live, candidate = (
            histories.get(job, CategoryHistory()) for histories in (self._growth.live, self._growth.candidate)
        )
        return ShadowedJob(
            job=job,
            live=live,
            candidate=candidate,
            plans=tuple(plans),
            differs=live != candidate or bool(plans),
            earlier_ms=earlier_ms(live, candidate),
        )


def checked(parameters: PoolParameters) -> PoolParameters:
    """Parameters that a pool could have.

    Raises:
        msgspec.ValidationError: They could not be.
    """
    return msgspec.convert(msgspec.to_builtins(parameters), PoolParameters)
