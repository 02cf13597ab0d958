"""How training goes: the events of the ``loss`` topic, keyed by job. The log-collector is their only writer."""

from __future__ import annotations

from typing import Annotated

import msgspec

from steepest.events.common import Count, Name, Text
from steepest.events.parameters import SpeConParameters
from steepest.events.requests import Rungs


class JobWatched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Reports of this incarnation follow; this is everything that the categorizer needs to judge them.

    It is repeated before the next report where the metric or the pool's parameters have changed, and daily.

    Attributes:
        metric: The evaluation function E: the name of the reported value that is judged.
        left_out: How many records of this incarnation were left out so far, because they are more than is taken of one. It
            is said again once it has doubled, and at the end.
        rungs: Where it is compared with other trials; None: nowhere.
    """

    job: Name
    pool: Name
    incarnation: Count
    metric: Text
    parameters: SpeConParameters
    left_out: Count = 0
    rungs: Rungs | None = None


class LossReported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """One value of the evaluation function. Its time is its record's.

    Attributes:
        step: None where the output names none.
        total: The steps of the whole training; None where the job does not state them.
        value: A finite number; what is not finite is a :class:`LossDiverged`.
        split: ``train`` or ``eval``.
    """

    job: Name
    incarnation: Count
    step: Count | None = None
    total: Count | None = None
    epoch: float | None = None
    metric: Text = "loss"
    value: float
    split: Annotated[str, msgspec.Meta(pattern=r"^(train|eval)$(?!\n)")] = "train"


class LossDiverged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The evaluation function is not a number, or infinite; it decides nothing, and users should know."""

    job: Name
    incarnation: Count
    step: Count | None = None
    metric: Text = "loss"
    value: Annotated[str, msgspec.Meta(pattern=r"^(nan|inf|-inf)$(?!\n)")]


class JobUnwatched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job has ended; no report follows, and its state may be forgotten."""

    job: Name


LossEvent = JobWatched | LossReported | LossDiverged | JobUnwatched
"""The events of ``loss``, except ``LogOpened``."""
