"""``steepest record``: topics, copied to a recording.

It owns the options and what is printed. It must never know how a recording is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import FolderPath, installation_options
from steepest.cli.printing.output import tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest record --out today                      all that is there now, from the first record on
  steepest record --out today                      again: only what has come since
  steepest record --out today --from-beginning     again, all of it, in the place of what was recorded before
  steepest record --kafka kafka:9092 --out today --follow
  steepest replay today && steepest check today

A recording begins with the first record that is there, and is gone on with also once that has been removed. Where the first
ones were removed before, the recording says where it begins; `replay` and `check` need the pool's from its first record on.
With --from-beginning the earlier recording stays until the new one is complete, and for good where first records are gone.
"""


@click.command(epilog=EPILOG)
@installation_options
@click.option("--out", type=FolderPath(), required=True, help="Write the recording to this folder.")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record, even if DIR holds a recording.")
@click.option("--follow/--no-follow", default=False, help="Record new events as they come, until interrupted.")
def record(settings: Settings, *, out: Path, from_beginning: bool, follow: bool) -> None:
    """Copy the topics to a recording, or go on with one."""
    from steepest.cli.pool.follow import run_until_stopped
    from steepest.describe import count

    copied = 0
    begins: list[str] = []

    async def run() -> None:
        nonlocal copied, begins
        from steepest.cli.pool.stored_pool import reading
        from steepest.log.files.file_log import FileLog
        from steepest.replay.record import begins_in, replace_recording
        from steepest.replay.record import record as copy

        async with reading(settings) as (installation, log):
            partitions = installation.layout.partitions()
            if from_beginning:
                _refuse_a_log(out)
                async for number in replace_recording(log, out, partitions):
                    copied = number
            if follow or not from_beginning:
                before, into = copied, FileLog(out, partitions, begins=await begins_in(log, partitions))
                everywhere = [at for topic in partitions for at in await into.partitions(topic)]
                begins = [f"{at}@{begin}" for at in everywhere if (begin := await into.begin(at))]
                try:
                    async for number in copy(log, into, follow=follow):
                        copied = before + number
                finally:
                    await into.close()

    run_until_stopped(run())
    tell(f"{count(copied, 'record')} copied to {out}")
    if begins:
        tell(f"what came before {', '.join(begins)} was removed, and is not in it")


def _refuse_a_log(out: Path) -> None:
    """Replacing an installation's own log would end the installation."""
    from steepest.app.state_folder import StateFolder
    from steepest.errors import InputError

    folder = StateFolder(out.resolve().parent)
    if folder.exists and folder.log == out.resolve():
        raise InputError(f"{out} is the log of an installation, not a recording", hint="record to another folder")
