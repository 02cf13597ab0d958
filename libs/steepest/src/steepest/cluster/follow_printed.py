"""A job's output as it comes, from one incarnation to the next, until nothing more can be printed.

It owns which incarnation is shown, and when following ends. It must never know how lines are shown, nor how a job's end is
known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import chain, islice

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.folders.printed import Printed
from steepest.cluster.port import ReplicaId

LOOK_EVERY_S = 0.2

BATCH_LINES = 200
"""A job that prints without end is given piece by piece; between two pieces others get their turn."""

Batch = tuple[int, Sequence[str]]
"""The number of an incarnation, and lines that it has printed; none: it was looked, and there was nothing new."""


def kept_of(folder: AdapterFolder, replica: ReplicaId, incarnation: int | None) -> IncarnationFolder | None:
    """The incarnation of that number, or the newest, if its output is kept.

    Raises:
        InputError: It is no name of a job.
    """
    kept = reversed(folder.printed(replica))
    return next((each for each in kept if incarnation in (None, each.incarnation)), None)


async def followed(
    folder: AdapterFolder,
    replica: ReplicaId,
    *,
    incarnation: int | None,
    lines: int,
    is_over: Callable[[int | None], bool],
) -> AsyncGenerator[Batch, None]:
    """The output so far, and all of it until the job is over: of later incarnations too, unless one is asked for.

    Args:
        folder: Where the output of jobs is kept.
        replica: Whose.
        incarnation: Only this one; None: the newest, and those after it.
        lines: With how many of its last lines the first incarnation begins.
        is_over: Whether one incarnation prints no more; for None, whether the job does not.

    Raises:
        InputError: It is no name of a job.
        UntrustedError: Its output is no regular file, or a link leads to it.
    """
    shown, number, last = kept_of(folder, replica, incarnation), 0, lines
    while shown is not None or not is_over(None):
        if shown is None:
            yield number, ()
            await asyncio.sleep(LOOK_EVERY_S)
        else:
            number = shown.incarnation
            async with aclosing(_to_its_end(folder, shown, last, is_over)) as batches:
                async for batch in batches:
                    yield number, batch
            if incarnation is not None:
                return
            last = -1
        shown = _next(folder, replica, number)


async def _to_its_end(
    folder: AdapterFolder, shown: IncarnationFolder, last: int, is_over: Callable[[int | None], bool]
) -> AsyncGenerator[Sequence[str], None]:
    """One incarnation's lines from its ``last`` ones on, -1: from its first, until nothing can be added."""
    with Printed(shown) as printed:
        if last >= 0:
            yield printed.last(last)[0]
        while True:
            # Asked before the last look: what is printed before an end is kept before it is known.
            ends = is_over(shown.incarnation) or _next(folder, shown.replica, shown.incarnation) is not None
            new = chain(printed.added(), printed.rest()) if ends else printed.added()
            while batch := list(islice(new, BATCH_LINES)):
                yield batch
                await asyncio.sleep(0)
            if ends:
                return
            yield ()
            await asyncio.sleep(LOOK_EVERY_S)


def _next(folder: AdapterFolder, replica: ReplicaId, number: int) -> IncarnationFolder | None:
    """The oldest incarnation after one; nothing is printed by the one before once it is there."""
    return next((each for each in folder.printed(replica) if each.incarnation > number), None)
