"""``steepest shadow``: a candidate next to the live policy, which decides about the same events and does nothing.

It owns the options and the words of the report.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from steepest.cli.options import SPAN, OneOf, installation_options, json_option
from steepest.cli.printing.output import give, tell
from steepest.policies.names import PlacementName

if TYPE_CHECKING:
    from collections.abc import Callable

    from steepest.app.settings.tree import Settings
    from steepest.events.parameters import PoolParameters
    from steepest.replay.shadow import ShadowedJob
    from steepest.replay.shadow_growth import CategoryHistory
    from steepest.replay.shadow_plans import Choice, PlanDifference

EPILOG = """\b
Examples:
  steepest shadow --alpha 0.02
  steepest shadow --placement flowcon2
  steepest shadow --policy dragon-fixed                         whom it would have started and scaled
  steepest shadow --policy specon+flowcon --follow              until interrupted, then the report
  steepest shadow --policy spread --json | jq '.[] | select(.differs) | .job'

The candidate reads what the live system reads, from its first record on, and neither writes nor moves anything. At each
record it is asked what it would do in the live system's place, with that one's jobs where they are and that one's plans
under way. So only a job's first difference is what would have happened; after it, the history is the live policy's, and
not the one that would have come. In particular, a limit that the candidate plans is never in force: no job grows more
slowly for it, and no move waits for it.

Placements, moves and limits are decided from the growth that the live categorizer measured. What --alpha, --interval and
a fitted threshold change shows in the categories that each job would have passed through.
"""


@click.command(epilog=EPILOG)
@installation_options
@click.option("--policy", metavar="NAME", help="Run this candidate: a live policy of `steepest simulate --policies`.")
@click.option("--placement", type=OneOf(get_args(PlacementName)), help="Place arrivals by this policy.")
@click.option("--alpha", type=click.FloatRange(0, min_open=True), help="Use this growth threshold α.")
@click.option("--interval", type=SPAN, help="Use this interval.")
@click.option("--follow/--no-follow", default=False, help="Compare new decisions as they come, until interrupted.")
@json_option
def shadow(
    settings: Settings,
    *,
    policy: str | None,
    placement: str | None,
    alpha: float | None,
    interval: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Run a candidate next to the live policy, and report job by job where they differ.

    What no option names is as it is live. Exits with 1 if they differ.
    """
    from steepest.cli.pool.follow import run_until_stopped
    from steepest.replay.shadow import Shadow

    candidate = Shadow(_change(policy, placement, alpha, interval))
    run_until_stopped(_feed(settings, candidate, follow=follow))
    found = candidate.comparisons()
    if as_json:
        give(found)
    else:
        _show(found)
    sys.exit(1 if any(one.differs for one in found) else 0)


def _change(
    policy: str | None, placement: str | None, alpha: float | None, interval: int | None
) -> Callable[[PoolParameters], PoolParameters]:
    import msgspec

    from steepest.policies.named import POLICIES, under
    from steepest.replay.shadow import checked

    if policy is not None and policy not in POLICIES:
        raise click.UsageError(f"there is no live policy {policy!r}; name one of {', '.join(POLICIES)}")
    wanted = {"alpha": alpha, "interval_ms": interval}
    specon = {name: value for name, value in wanted.items() if value is not None}

    def changed(parameters: PoolParameters) -> PoolParameters:
        after = under(policy, parameters) if policy is not None else parameters
        return checked(
            msgspec.structs.replace(
                after,
                placement=placement or after.placement,
                specon=msgspec.structs.replace(after.specon, **specon),
            )
        )

    return changed


async def _feed(settings: Settings, candidate: Any, *, follow: bool) -> None:
    from steepest.cli.pool.follow import batches
    from steepest.cli.pool.stored_pool import reading

    async with reading(settings) as (installation, log):
        partitions = [
            installation.layout.of_pool(settings.pool or installation.pool),
            *installation.layout.of_topic("loss"),
        ]
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


def _show(found: Sequence[ShadowedJob]) -> None:
    from steepest.cli.printing.tables import show
    from steepest.describe import count

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
                    "; ".join([*_growth(one), *map(_plan, one.plans)]),
                ]
                for one in found
            ],
        )
    differing = sum(one.differs for one in found)
    kinds = Counter(NOUNS[plan.kind] for one in found for plan in one.plans)
    differences = ", ".join(count(number, noun) for noun, number in sorted(kinds.items()))
    tell(f"{differing} of {len(found)} jobs would differ{f' ({differences})' if differences else ''}")


def _course(course: CategoryHistory) -> str:
    return " ".join(["PC", *(step.category for step in course.steps)])


def _growth(one: ShadowedJob) -> list[str]:
    """The differences in the categories that a job passes through."""
    from steepest.describe import span

    if one.live == one.candidate:
        return []
    if one.earlier_ms:
        word = "earlier" if one.earlier_ms > 0 else "later"
        return [f"asks for another place {span(abs(one.earlier_ms))} {word}"]
    if (one.live.asked_ms is None) != (one.candidate.asked_ms is None):
        return ["asks for another place" if one.live.asked_ms is None else "never asks for another place"]
    return ["measures or passes at other times"]


NOUNS = {"place": "placement", "move": "move", "scale": "scaling", "limit": "limit"}
VERBS = {"place": "placed on", "move": "moved to", "scale": "scaled to", "limit": "limited to"}


def _plan(one: PlanDifference) -> str:
    """The differences in a job's plans."""
    from steepest.describe import span

    verb, live, candidate = VERBS[one.kind], one.live, one.candidate
    if live is None or candidate is None:
        return f"not {verb} {_value(live)}" if candidate is None else f"{verb} {_value(candidate)}"
    if live.value != candidate.value:
        return f"{verb} {_value(candidate)}, not {_value(live)}"
    word = "earlier" if candidate.at_ms < live.at_ms else "later"
    return f"{verb} {_value(candidate)} {span(abs(live.at_ms - candidate.at_ms))} {word}"


def _value(choice: Choice | None) -> str:
    value = choice.value if choice is not None else ""
    return f"{value}m" if isinstance(value, int) else value
