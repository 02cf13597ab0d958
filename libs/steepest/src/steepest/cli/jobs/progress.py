"""The step and loss of running jobs as their newest reports say, which are newer than the pool's facts.

It owns how much of the ``loss`` topic is read for it.
"""

from __future__ import annotations

from steepest.app.settings.tree import Settings
from steepest.cli.pool.stored_pool import StoredPool, fold, reading
from steepest.errors import UndecodableError
from steepest.events.loss import LossDiverged, LossReported
from steepest.log.base import Log
from steepest.read_models.job_rows import NewestReport
from steepest.runtime.decode import received

RECORDS_MOST = 2_000
"""Of the newest records of each partition. A job whose newest report is older is shown without one."""

TOPIC = "loss"


async def look_at_progress(settings: Settings) -> tuple[StoredPool, dict[str, NewestReport]]:
    """The pool of a state folder as it stands now, and its jobs' newest reports.

    Raises:
        InputError: There is no installation in the folder.
        RecordingError: It is damaged, or of another version.
    """
    async with reading(settings) as (installation, log):
        return await fold(settings, installation, log), await progress_of(log)


async def progress_of(log: Log) -> dict[str, NewestReport]:
    """The newest training loss of each job that reported lately."""
    found: dict[str, NewestReport] = {}
    partitions = await log.partitions(TOPIC)
    ends = {at: await log.end(at) for at in partitions}
    start = {at: max(await log.begin(at), ends[at] - RECORDS_MOST) for at in partitions}
    left = {str(at): end for at, end in ends.items() if start[at] < end}
    if not left:
        return found
    reader = log.reader({at: offset for at, offset in start.items() if str(at) in left})
    try:
        while left:
            for record in await reader.poll():
                if record.offset + 1 >= ends[record.at]:
                    left.pop(str(record.at), None)
                try:
                    event = received(record).event
                except UndecodableError:
                    continue
                if isinstance(event, LossReported | LossDiverged):
                    _take(found, event)
    finally:
        await reader.close()
    return found


def _take(found: dict[str, NewestReport], event: LossReported | LossDiverged) -> None:
    before = found.get(event.job)
    if before is not None and event.incarnation < before.incarnation:
        return
    if before is None or event.incarnation > before.incarnation:
        before = NewestReport(incarnation=event.incarnation, step=event.step, epoch=None, loss=None)
        found[event.job] = before
    if isinstance(event, LossReported) and event.split == "train":
        before.step, before.epoch, before.loss = event.step, event.epoch, event.value
    elif isinstance(event, LossDiverged):
        before.step, before.loss = event.step, None
