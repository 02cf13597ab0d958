"""``steepest parse``: what the log-collector reads out of a log, shown.

Owns the command's options and both of its outputs. Must never know a log format.
"""

from __future__ import annotations

import math
from typing import IO, TYPE_CHECKING, Protocol

import click

from steepest.cli.printing.output import give_raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steepest.training_logs import LossRecord

CHUNK_BYTES = 1 << 20
"""One read; with the longest line, that is what is held of a log of any size."""

EXAMPLES_SHOWN = 8
"""Lines shown of those that look like a loss and were not taken."""

EPILOG = """\b
Examples:
  steepest parse train.log
  steepest parse train.log --json | jq .value
  kubectl logs job/mnist | steepest parse -
  steepest parse train.log --format megatron --metric lm_loss
  steepest parse train.log --pattern 'it (?P<step>\\d+) cost: (?P<value>\\S+)'
"""


class _Reader(Protocol):
    """What reads a log's bytes, whichever kind of log it is."""

    def feed(self, chunk: bytes) -> list[LossRecord]: ...

    def close(self) -> list[LossRecord]: ...


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
    loss or not, and with 2 if FILE or an option is wrong. In JSON, a value that is no number is "NaN", "Infinity" or
    "-Infinity".
    """
    from steepest.cli.printing.parse_summary import show
    from steepest.errors import InputError
    from steepest.training_logs import LogReader

    if "tfevents" in str(getattr(file, "name", "")):
        from steepest.training_logs.sources.tensorboard import EventReader

        events = EventReader(metric)
        _print(_batches(file, events)) if as_json else show(_records(file, events))
        return
    try:
        reader = LogReader(format_name, metric, pattern, explain=not as_json)
    except InputError as error:
        raise click.UsageError(f"{error}{'; ' + error.hint if error.hint not in str(error) else ''}") from None
    _print(_batches(file, reader)) if as_json else show(_records(file, reader), reader)


def _batches(file: IO[bytes], reader: _Reader) -> Iterator[list[LossRecord]]:
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK_BYTES):
        yield reader.feed(chunk)
    yield reader.close()


def _records(file: IO[bytes], reader: _Reader) -> Iterator[LossRecord]:
    for batch in _batches(file, reader):
        yield from batch


def _print(batches: Iterator[list[LossRecord]]) -> None:
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
