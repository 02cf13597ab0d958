"""Which limit of its queue or its user a job would exceed. It must never know nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from steepest.events.common import Resources
from steepest.view.projection import Projection
from steepest.view.queue_use import holdings
from steepest.view.state import Job, Phase


class Excess(NamedTuple):
    """A limit that a job would exceed: whose, in words, and whether it would also where nothing else is held."""

    account: str
    words: str
    is_alone: bool


def is_limited(view: Projection, job: Job) -> bool:
    """Whether its queue or its user has limits."""
    queueing = view.parameters.queueing
    return bool(queueing.limits) and any(queueing.limits_on(account) for account in job.accounts)


def too_many(view: Projection, job: Job) -> str:
    """Why a job that was just submitted is one too many of its queue or user; empty where it is not. Work: O(jobs)."""
    for account in job.accounts if view.parameters.queueing.limits else ():
        limits = view.parameters.queueing.limits_on(account)
        if limits is not None and limits.jobs is not None:
            before = (one for one in view.jobs if one.submitted_offset < job.submitted_offset)
            unfinished = sum(one.phase is not Phase.ENDED and account in one.accounts for one in before)
            if unfinished >= limits.jobs:
                return f"{account} has {unfinished} unfinished jobs of the {limits.jobs} that it may have"
    return ""


def excess(
    view: Projection, job: Job, sizes: Sequence[int], coming: Callable[[str], Resources] = lambda _: Resources()
) -> Excess | None:
    """A limit that a job exceeds with this number of replicas of each role; one that it exceeds alone comes first.

    It exceeds no limit of a resource of which it gets no more than it has. ``sizes`` empty: all that it names; ``coming``:
    what an account will hold beyond what the view knows.
    """
    return max(_excesses(view, job, sizes, coming), key=lambda one: one.is_alone, default=None)


def _excesses(view: Projection, job: Job, sizes: Sequence[int], coming: Callable[[str], Resources]) -> Iterator[Excess]:
    for account in job.accounts if view.parameters.queueing.limits else ():
        limits = view.parameters.queueing.limits_on(account)
        if limits is None:
            continue
        more = holdings(job.spec, sizes) - view.jobs.use.of_job(job)
        held = view.jobs.use.of(account) + coming(account)
        for unit, scale, most, has, asked in (
            (" replicas", 1, limits.replicas, held.replicas, more.replicas),
            ("m CPU", 1, limits.cpu_m, held.cpu_m, more.cpu_m),
            (" MiB", 1, limits.memory_mib, held.memory_mib, more.memory_mib),
            (" GPUs", 1000, limits.gpu_m, held.all_gpus_m, more.all_gpus_m),
        ):
            if most is not None and has + asked > most and asked > 0:
                words = _words(account, unit, (most / scale, has / scale, asked / scale))
                yield Excess(account, words, asked > most)


def _words(account: str, unit: str, amounts: Sequence[float]) -> str:
    most, has, asked = (f"{amount:.12g}{unit.rstrip('s') if amount == 1 else unit}" for amount in amounts)
    holds = f"may hold {most}" if amounts[2] > amounts[0] else f"holds {has} of the {most} that it may hold"
    return f"it asks for at least {asked}, and {account} {holds}"
