"""``steepest topics``: the topics on Kafka, made what they should be.

It owns the options and how differences are told. It must never know what a topic should be.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.commands.trim import trim
from steepest.cli.options import json_option, state_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.log.kafka.kafka_settings import KafkaSettings
    from steepest.log.kafka.kafka_topics import Change
    from steepest.runtime.layout import Layout

EPILOG = """\b
Examples:
  steepest topics apply --kafka 127.0.0.1:9092
  steepest topics apply --kafka kafka:9092 --dry-run
  steepest topics apply --kafka kafka:9092 --loss-partitions 16 --replication 3

Doing it again changes nothing. A topic that is made gets its identity at once; one that was deleted and made again has
another, and whoever kept state of the old one stops and says so.
"""


@click.group()
def topics() -> None:
    """Look after the topics on Kafka."""


topics.add_command(trim)


@topics.command(epilog=EPILOG)
@state_option
@click.option("--loss-partitions", type=click.IntRange(1, 10_000), help="Partitions of `loss` (of a new folder: 4).")
@click.option("--replication", type=click.IntRange(1, 100), help="Copies of each record (3, or one a broker).")
@click.option("--dry-run/--no-dry-run", default=False, help="Show what differs, and change nothing.")
@json_option
def apply(
    state: Path,
    *,
    loss_partitions: int | None,
    replication: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make every topic what it should be, and show what differed.

    The number of partitions of a keyed topic that holds records is never changed. With --dry-run, exits with 1 if
    something differs.
    """
    import asyncio

    from steepest.app.installation import kafka_of
    from steepest.app.state_folder import StateFolder
    from steepest.cli.quiet import quiet

    quiet()
    settings = kafka_of(StateFolder(state))
    if settings is None:
        raise click.UsageError("say which cluster: --kafka HOST:PORT")
    layout = _layout(state, loss_partitions)
    changes = asyncio.run(_apply(settings, layout, replication, dry_run=dry_run))
    if as_json:
        give({"changes": changes, "applied": not dry_run})
    else:
        for change in changes:
            tell(str(change))
        if not changes:
            tell("all topics are as they should be")
    sys.exit(1 if dry_run and changes else 0)


def _layout(state: Path, loss_partitions: int | None) -> Layout:
    import msgspec

    from steepest.app.state_folder import StateFolder
    from steepest.runtime.layout import Layout

    folder = StateFolder(state)
    layout = folder.read().layout if folder.exists else Layout()
    return layout if loss_partitions is None else msgspec.structs.replace(layout, loss_partitions=loss_partitions)


async def _apply(kafka: KafkaSettings, layout: Layout, replication: int | None, *, dry_run: bool) -> list[Change]:
    from steepest.log.kafka.kafka_topics import KafkaTopics

    if dry_run:
        return await KafkaTopics(kafka, _counts(layout), replication).differences()
    return await apply_topics(kafka, layout, replication)


async def apply_topics(kafka: KafkaSettings, layout: Layout, replication: int | None = None) -> list[Change]:
    """Make the topics of a layout, and give every partition that is new its identity.

    Raises:
        InputError: A topic that holds records would have to get another number of partitions.
        LogUnavailableError: The cluster does not do it.
    """
    from steepest.clock import SystemClock
    from steepest.log.kafka.kafka_log import KafkaLog
    from steepest.log.kafka.kafka_topics import KafkaTopics
    from steepest.runtime.recovery.log_identity import open_partitions

    changes = await KafkaTopics(kafka, _counts(layout), replication).apply()
    log = KafkaLog(kafka, _counts(layout))
    try:
        await open_partitions(log, layout, SystemClock())
    finally:
        await log.close()
    return changes


def _counts(layout: Layout) -> Mapping[str, int]:
    return layout.partitions()
