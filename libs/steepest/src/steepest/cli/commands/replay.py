"""``steepest replay``: fold a recording through the deciders again and compare, byte for byte."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.replay.compare import Report

EPILOG = """\b
Examples:
  steepest replay .steepest            the recording of a running or stopped system
  steepest replay tests/golden/demo    a recording by itself
  steepest replay RECORDING --json | jq .first_difference
  steepest replay .steepest/demo-1 --view                         scrub through it in a browser
  steepest replay RECORDING --into 127.0.0.1:9092 --speed 10     feed a test system that runs there
"""


@click.command(epilog=EPILOG)
@click.argument("recording", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--into", metavar="HOST:PORT", help="Feed outside events to the system on this Kafka cluster.")
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Feed so many times as fast, with --into.",
)
@click.option("--view", is_flag=True, help="Show the recording on the live page, at any of its moments, until Ctrl-C.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare with this recording, with --view.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Serve the page on this port, with --view.")
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON object and nothing else.")
def replay(
    recording: Path, *, into: str | None, speed: float, view: bool, against: Path | None, port: int, as_json: bool
) -> None:
    """Decide everything in RECORDING again and compare with what was decided then.

    Exits with 0 if every decision is the same byte for byte, and with 1 if one differs; the first position that
    differs is named, with both versions.
    """
    import asyncio

    if against is not None and not view:
        raise click.UsageError("--against is for --view")
    if view:
        from steepest.cli.pool.follow import run_until_stopped

        run_until_stopped(_show(recording, against, port, as_json=as_json))
        return
    if into is not None:
        fed = asyncio.run(_feed(recording, into, speed))
        give({"fed": fed}) if as_json else tell(f"fed {fed} records to {into}")
        return
    report = asyncio.run(_replay(recording))
    if as_json:
        give(report)
    else:
        for line in _words(report):
            tell(line)
    sys.exit(1 if report.differences else 0)


async def _show(recording: Path, against: Path | None, port: int, *, as_json: bool) -> None:
    """Serve the page over one recording, or two."""
    import asyncio

    from steepest.app.settings.gateway import GatewaySettings
    from steepest.gateway.pools import recordings_served
    from steepest.gateway.server import listening

    folders = {"recording": recording} | ({"other": against} if against else {})
    async with (
        recordings_served({name: log_folder(folder) for name, folder in folders.items()}) as served,
        listening(served, GatewaySettings(port=port)) as here,
    ):
        give({"address": here.address}) if as_json else tell(f"the recording is on {here.address} (Ctrl-C ends it)")
        await asyncio.Event().wait()


async def _replay(recording: Path) -> Report:
    from steepest.log.files.file_log import FileLog
    from steepest.replay.replay import Replay

    log = FileLog.open(log_folder(recording), read_only=True)
    try:
        return await Replay(log).run()
    finally:
        await log.close()


async def _feed(recording: Path, into: str, speed: float) -> int:
    """Feed a recording to the cluster that is named; its topics must be there, and the pools have the same names."""
    from steepest.app.settings.reading import read_settings
    from steepest.clock import SystemClock
    from steepest.log.files.file_log import FileLog
    from steepest.log.kafka.kafka_log import KafkaLog
    from steepest.replay.feed import feed
    from steepest.runtime.layout import Layout

    kafka = read_settings({"kafka.bootstrap": into}).kafka
    source = FileLog.open(log_folder(recording), read_only=True)
    layout = Layout(loss_partitions=source.topics["loss"])
    target = KafkaLog(kafka, layout.partitions())
    fed = 0
    try:
        async for number in feed(source, target, layout, SystemClock(), speed):
            fed = number
    finally:
        await target.close()
        await source.close()
    return fed


def log_folder(recording: Path) -> Path:
    """A recording's folder, also where the state folder around it is named."""
    return recording / "log" if (recording / "steepest.json").exists() else recording


def _words(report: Report) -> list[str]:
    import msgspec

    deciders = ", ".join(f"{name} {count}" for name, count in report.by_decider.items())
    lines = [f"{report.decisions} decisions made again ({deciders}), {report.differences} differences"]
    if report.not_yet_recorded:
        lines.append(f"{report.not_yet_recorded} decisions lie beyond the end of the recording")
    if report.altered:
        lines.append(f"records that are not as they were written: {', '.join(report.altered[:5])}")
    if report.left_out:
        lines.append(f"not compared, because the first records are missing: {', '.join(report.left_out)}")
    first = report.first_difference
    if first is not None:
        lines.append(f"first difference at {first.position}: {first.why}")
        for label, value in (("then", first.recorded), ("now", first.decided)):
            shown = msgspec.json.encode(value, order="sorted").decode() if value is not None else "nothing"
            lines.append(f"  {label}: {shown}")
    return lines
