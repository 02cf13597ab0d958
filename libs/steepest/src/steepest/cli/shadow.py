"""``steepest shadow``: a candidate beside the live policy, which decides the same and does nothing.

It owns the options and the words of the report.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steepest.cli.options import SPAN, json_option, state_option

if TYPE_CHECKING:
    from steepest.replay.shadow import Comparison, Course
    from steepest.state_folder import StateFolder

EPILOG = """\b
Examples:
  steepest shadow --alpha 0.02
  steepest shadow --policy specon --interval 10s --follow       until interrupted, then the report
  steepest shadow --alpha 0.05 --json | jq '.[] | select(.differs) | .job'

The candidate reads the losses that the live system reads, and neither writes nor moves anything; so what came after a
move is what the live system saw, and not what would have come otherwise.
"""


@click.command(epilog=EPILOG)
@state_option
@click.option("--policy", type=click.Choice(["specon"]), default="specon", show_default=True, help="Whose rules.")
@click.option("--alpha", type=click.FloatRange(0, min_open=True), help="The candidate's growth threshold α.")
@click.option("--interval", type=SPAN, help="The candidate's interval.")
@click.option("--follow/--no-follow", default=False, help="Go on with what comes, until interrupted.")
@json_option
def shadow(state: Path, *, policy: str, alpha: float | None, interval: int | None, follow: bool, as_json: bool) -> None:
    """Run a candidate beside the live policy, and report job by job where they differ.

    Exits with 1 if they do.
    """
    import asyncio

    import msgspec

    from steepest.replay.shadow import Shadow
    from steepest.state_folder import StateFolder

    del policy  # click has made sure that it is the one there is
    wanted = {"alpha": alpha, "interval_ms": interval}
    candidate = Shadow({name: value for name, value in wanted.items() if value is not None})
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_feed(StateFolder(state), candidate, follow=follow))
    found = candidate.comparisons()
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        _show(found)
    sys.exit(1 if any(one.differs for one in found) else 0)


async def _feed(folder: StateFolder, candidate: Any, *, follow: bool) -> None:
    from steepest.cli.follow import batches
    from steepest.cli.pool import reading

    async with reading(folder) as (installation, log):
        partitions = [installation.layout.of_pool(installation.pool), *installation.layout.of_topic("loss")]
        left = {at: end for at in partitions if (end := await log.end(at))}
        if not left and not follow:
            return
        async for records in batches(log, dict.fromkeys(partitions, 0)):
            for record in records:
                candidate.hear(record)
                if record.offset + 1 >= left.get(record.at, 0):
                    left.pop(record.at, None)
            if not left and not follow:
                return


def _show(found: Sequence[Comparison]) -> None:
    from steepest.cli.tables import show
    from steepest.words import count

    if found:
        show(
            ("job", "live", "candidate", "#moves asked live", "#candidate", "what would have changed"),
            [
                [
                    one.job,
                    _course(one.live),
                    _course(one.candidate),
                    str(one.live.requests),
                    str(one.candidate.requests),
                    _change(one),
                ]
                for one in found
            ],
        )
    differing = sum(one.differs for one in found)
    click.echo(f"{count(differing, 'job')} of {len(found)} would have gone otherwise")


def _course(course: Course) -> str:
    return " ".join(["PC", *(step.category for step in course.steps)])


def _change(one: Comparison) -> str:
    from steepest.words import span

    if not one.differs:
        return ""
    if one.earlier_ms:
        word = "earlier" if one.earlier_ms > 0 else "later"
        return f"asks for another place {span(abs(one.earlier_ms))} {word}"
    if (one.live.asked_ms is None) != (one.candidate.asked_ms is None):
        return "asks for another place" if one.live.asked_ms is None else "never asks for another place"
    return "measures or passes at other times"
