"""``steepest parse``: what the log-collector reads out of a log, shown.

Owns the command's options and both of its outputs. Must never know a log format.
"""

from __future__ import annotations

import math
import os
import select
import stat
import time
from functools import partial
from itertools import chain
from typing import IO, TYPE_CHECKING

import click

from steepest.cli.printing.output import give_raw, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from steepest.training_logs import LogReader, LossRecord

CHUNK_BYTES = 1 << 20
"""One read; with the longest line, that is what is held of a log of any size."""

EXAMPLES_SHOWN = 8
"""Lines shown of those that look like a loss and were not taken."""

HELD_S = 2.0
"""How long a reading from a pipe may wait for the lines that would tell more about it."""

QUIET_S = 0.1
"""A pipe that brings nothing for so long is that of a job which still runs."""

EPILOG = """\b
Examples:
  steepest parse train.log
  steepest parse train.log --json | jq .value
  kubectl logs job/mnist | steepest parse -
  steepest parse train.log --format megatron --metric lm_loss
  steepest parse train.log --pattern 'it (?P<step>\\d+) cost: (?P<value>\\S+)'
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--format", "format_name", default="auto", help="Read this log format; default: recognise it from the lines."
)
@click.option("--metric", help="Read only this metric, as printed; 'sum' adds up a detector's part losses.")
@click.option("--pattern", help="Read lines by this RE2 expression; groups: value, step, epoch, metric, split.")
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON object a record and nothing else.")
def parse(file: IO[bytes], format_name: str, metric: str | None, pattern: str | None, *, as_json: bool) -> None:
    """Show the losses in FILE ('-' for standard input).

    FILE is what a training job printed, or a TensorBoard event file. Exits with 0 if it was read, whether it holds a
    loss or not, and with 2 if FILE or an option is wrong. From a pipe that pauses, each loss is shown as it comes. In
    JSON, a value that is no number is "NaN", "Infinity" or "-Infinity".
    """
    from steepest.cli.printing.parse_summary import show
    from steepest.errors import InputError
    from steepest.training_logs import LogReader

    if "tfevents" in str(getattr(file, "name", "")):
        from steepest.training_logs.sources.tensorboard import EventReader

        events = EventReader(metric)
        batches = map(events.feed, iter(partial(file.read, CHUNK_BYTES), b""))
        _print(batches) if as_json else show(chain.from_iterable(batches))
        return
    try:
        reader = LogReader(format_name, metric, pattern, explain=not as_json)
    except InputError as error:
        raise click.UsageError(f"{error}{'; ' + error.hint if error.hint not in str(error) else ''}") from None
    _print(_batches(file, reader)) if as_json else show(chain.from_iterable(_batches(file, reader, _say)), reader)


def _batches(
    file: IO[bytes], reader: LogReader, say: Callable[[LossRecord], None] | None = None
) -> Iterator[list[LossRecord]]:
    """Yields the records of each read, and those that waited for more lines than came in ``HELD_S``.

    Args:
        file: what is read.
        reader: what reads it.
        say: given each record of a pipe from its first pause on.
    """
    read = getattr(file, "read1", file.read)
    is_pipe, is_live, held_at = _is_pipe(file), False, time.monotonic()
    while True:
        wait_s = max(held_at + HELD_S - time.monotonic(), QUIET_S)
        if pauses := is_pipe and not select.select([file], [], [], wait_s)[0]:
            is_live, records = True, reader.release() if reader.is_holding else []
        elif chunk := read(CHUNK_BYTES):
            records = reader.feed(chunk)
        else:
            break
        if pauses or not reader.is_holding:
            held_at = time.monotonic()
        if is_live and say is not None:
            for record in records:
                say(record)
        yield records
    yield reader.close()


def _is_pipe(file: IO[bytes]) -> bool:
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _say(record: LossRecord) -> None:
    epoch = "" if record.epoch is None else f" epoch {record.epoch:g}"
    tell(f"step {record.step}{epoch} {record.metric} {record.value:g} {record.split}")


def _print(batches: Iterable[list[LossRecord]]) -> None:
    """Print the records of each read immediately, so that a log that is still growing can be watched."""
    import msgspec

    encoder = msgspec.json.Encoder()
    for batch in batches:
        give_raw(b"".join(encoder.encode(_plain(record)) + b"\n" for record in batch))


def _plain(record: LossRecord) -> LossRecord | dict[str, object]:
    import msgspec

    if math.isfinite(record.value):
        return record
    return {**msgspec.structs.asdict(record), "value": _NOT_FINITE.get(record.value, "NaN")}


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
