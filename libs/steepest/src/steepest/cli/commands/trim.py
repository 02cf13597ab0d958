"""``steepest topics trim``: a pool's log on Kafka, cut off behind the snapshots of all services.

It owns the options and which services there are. It must never know what a service needs to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import SPAN, installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest topics trim --keep 30d
  steepest topics trim --keep 30d --dry-run

What is removed is gone for good: copy it before with `steepest record`. Afterwards the pool lives by its snapshots: a
release that cannot read them cannot take it over (docs/kafka.md).
"""


@click.command(epilog=EPILOG)
@installation_options
@click.option("--keep", type=SPAN, required=True, help="Keep everything younger than this, e.g. 30d.")
@click.option("--dry-run/--no-dry-run", default=False, help="Show what would be removed, and remove nothing.")
@json_option
def trim(settings: Settings, *, keep: int, dry_run: bool, as_json: bool) -> None:
    """Remove the oldest records of the pools' logs, as far as no service needs them to start.

    Refuses where one of the services has kept no snapshot that this version could start from.
    """
    import asyncio

    from steepest.cli.quiet import quiet
    from steepest.describe import count

    quiet()
    trimmed = asyncio.run(_trim(settings, keep, dry_run=dry_run))
    if as_json:
        found = [{"begin": begin, "before": before, "applied": not dry_run} for begin, before in trimmed.values()]
        give(found[0] if len(found) == 1 else dict(zip(trimmed, found, strict=True)))
        return
    what = "would be removed" if dry_run else "removed"
    for pool, (begin, before) in trimmed.items():
        whose = "the pool's log" if len(trimmed) == 1 else f"the log of {pool}"
        tell(f"{count(before - begin, 'record')} {what}; {whose} begins at {before}")


async def _trim(settings: Settings, keep_ms: int, *, dry_run: bool) -> dict[str, tuple[int, int]]:
    """Where each pool's log began, and where it begins now or would."""
    from steepest.app.context import ServiceContext
    from steepest.app.installation import SYSTEM, kafka_of, open_log, open_snapshots
    from steepest.app.installed_services import wanted_services
    from steepest.clock import SystemClock
    from steepest.log.kafka.kafka_log import KafkaLog
    from steepest.log.kafka.kafka_snapshots import SeenSnapshots
    from steepest.log.kafka.kafka_topics import KafkaTopics
    from steepest.runtime.monitoring.metric_defs import Metrics
    from steepest.runtime.recovery.trimming import needed_from
    from steepest.runtime.service import Service

    installation, kafka, clock = settings.folder.read(), kafka_of(settings), SystemClock()
    if kafka is None:
        raise click.UsageError("`up` trims a log in files, by retention.ms; say which cluster: --kafka HOST:PORT")
    log = open_log(settings, installation)
    assert isinstance(log, KafkaLog)  # noqa: S101 - it is on Kafka
    context = ServiceContext(
        settings=settings, installation=installation, log=log, clusters={}, clock=clock, metrics=Metrics()
    )
    services = [build(context) for build in wanted_services(settings).values()]
    if not settings.installation_file:  # without a state folder, no `up` reads the log
        services.append(Service(name=SYSTEM))
    found: dict[str, tuple[int, int]] = {}
    seen = SeenSnapshots()
    try:
        for pool in settings.pools:
            at = installation.layout.of_pool(pool)
            needed = await needed_from(
                log, at, installation.layout, services, lambda name: open_snapshots(settings, log, name, seen)
            )
            begin = await log.begin(at)
            found[pool] = begin, max(begin, min(needed, await log.since(at, max(0, clock.now_ms() - keep_ms))))
        before = {installation.layout.of_pool(pool): end for pool, (begin, end) in found.items() if end > begin}
        if before and not dry_run:
            await KafkaTopics(kafka, installation.layout.partitions()).trim(before)
    finally:
        await log.close()
    return found
