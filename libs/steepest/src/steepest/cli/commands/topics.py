"""``steepest topics``: creates, changes and trims the topics on Kafka.

It owns the options and how differences are shown. It must never know what a topic should be.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from steepest.cli.commands.trim import trim
from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.log.kafka.kafka_settings import KafkaSettings
    from steepest.log.kafka.kafka_topics import Change
    from steepest.runtime.layout import Layout

EPILOG = """\b
Examples:
  steepest topics apply --kafka 127.0.0.1:9092
  steepest topics apply --kafka kafka:9092 --dry-run
  steepest topics apply --kafka kafka:9092 --loss-partitions 16 --replication 3

A second call changes nothing. A new topic gets its identity immediately; one that was deleted and created again has another,
and a process that kept state of the old one stops and says so.
"""


@click.group()
def topics() -> None:
    """Create, change and trim the topics on Kafka."""


topics.add_command(trim)


@topics.command(epilog=EPILOG)
@installation_options
@click.option(
    "--loss-partitions", type=click.IntRange(1, 10_000), help="Give `loss` so many partitions (4 in a new folder)."
)
@click.option(
    "--replication", type=click.IntRange(1, 100), help="Keep so many copies of each record (3, or one per broker)."
)
@click.option("--dry-run/--no-dry-run", default=False, help="Show what differs, and change nothing.")
@json_option
def apply(
    settings: Settings,
    *,
    loss_partitions: int | None,
    replication: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create what is missing, change what differs, and show it.

    The number of partitions of a keyed topic that holds records is never changed. With --dry-run, exits with 1 if
    something differs.
    """
    import asyncio

    from steepest.app.installation import kafka_of

    kafka = kafka_of(settings)
    if kafka is None:
        raise click.UsageError("say which cluster: --kafka HOST:PORT")
    layout = _layout(settings, loss_partitions)
    changes = asyncio.run(_apply(kafka, layout, replication, dry_run=dry_run))
    if as_json:
        give({"changes": changes, "applied": not dry_run})
    else:
        for change in changes:
            tell(str(change))
        if not changes:
            tell("all topics are as configured")
    sys.exit(1 if dry_run and changes else 0)


def _layout(settings: Settings, loss_partitions: int | None) -> Layout:
    import msgspec

    from steepest.runtime.layout import Layout

    folder = settings.folder
    layout = folder.read().layout if folder.exists else Layout()
    return layout if loss_partitions is None else msgspec.structs.replace(layout, loss_partitions=loss_partitions)


async def _apply(kafka: KafkaSettings, layout: Layout, replication: int | None, *, dry_run: bool) -> list[Change]:
    from steepest.app.installation import apply_topics
    from steepest.log.kafka.kafka_topics import KafkaTopics

    if dry_run:
        return await KafkaTopics(kafka, layout.partitions(), replication).differences()
    return await apply_topics(kafka, layout, replication)
