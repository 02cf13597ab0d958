"""Where a run is, on each line of the logs that common scripts print.

The logs are in ``styles/``, with the truth below each line: name, value, then ``step``, ``of`` (the run's steps), ``epoch``
and ``in`` (its epochs), each only where a reader of the lines so far could tell. Names are not compared. ``+`` instead of
``=`` is true of the finished log alone, ``-`` while it is printed: what a line means may follow from a later one.
"""

import re
from pathlib import Path

import pytest

from steepest.training_logs import LogReader, LossRecord

from .test_formats import unescape

Truth = tuple[float | None, ...]

_TRUTH = re.compile(r"\S+ (\S+)(?: step (\d+))?(?: of (\d+))?(?: epoch (\S+))?(?: in (\d+))?")


def load(text: str, marks: str) -> list[tuple[str, list[str], list[tuple[int, Truth]]]]:
    """The logs of a file: a name, lines, and the training losses with one of the marks, and the number of their line."""
    logs = []
    for block in re.split(r"\n\n(?=#)", text.strip()):
        head, *rest = block.split("\n")
        lines: list[str] = []
        truth: list[tuple[int, Truth]] = []
        for line in rest:
            if line.startswith(">"):
                lines.append(unescape(line[2:]) + "\n")
            elif line[0] in marks:
                found = _TRUTH.fullmatch(line[2:])
                assert found is not None, line
                value, step, total, epoch, epochs = found.groups()
                place = (*(int(one) if one else None for one in (step, total)), float(epoch) if epoch else None)
                truth.append((len(lines), (float(value), *place, int(epochs) if epochs else None)))
        logs.append((head[2:], lines, truth))
    return logs


FILES = [path.read_text("utf-8") for path in sorted((Path(__file__).parent / "styles").glob("*.txt"))]
FINISHED, LIVE = ([log for text in FILES for log in load(text, marks)] for marks in ("=+", "=-"))


def places(records: list[LossRecord]) -> list[tuple[int, Truth]]:
    """The training losses without running means, in the order of their lines."""
    return [
        (one.line, (one.value, None if one.step_counted else one.step, one.total, one.epoch, one.epochs))
        for one in sorted(records, key=lambda one: one.line)
        if one.split == "train" and not one.metric.endswith("_mean")
    ]


@pytest.mark.parametrize(("lines", "truth"), [log[1:] for log in FINISHED], ids=[log[0] for log in FINISHED])
def test_each_line_has_its_place(lines: list[str], truth: list[tuple[int, Truth]]) -> None:
    """Step, epoch and totals of a finished log are those that a person reads from it."""
    reader = LogReader()
    assert places(reader.feed("".join(lines).encode()) + reader.close()) == truth


@pytest.mark.parametrize(("lines", "truth"), [log[1:] for log in LIVE], ids=[log[0] for log in LIVE])
def test_each_line_of_a_slow_job_has_its_place(lines: list[str], truth: list[tuple[int, Truth]]) -> None:
    """The same while a job prints so slowly that each line is read before the next one comes."""
    reader = LogReader()
    found = [record for line in lines for record in (*reader.feed(line.encode()), *reader.release())]
    assert places(found + reader.close()) == truth


UNCLEAR = ("a step in brackets", "an epoch in a bracket", "two ranks", "a container's prefix")
"""A bracket behind a bracket is a step only once a second line shows that it rises; others have prefixes of their own."""


@pytest.mark.parametrize("prefix", ["node17: ", "(RayTrainWorker pid=7101, ip=10.0.0.2) ", "[1,0]<stdout>:"])
def test_a_slow_job_behind_a_prefix_is_read_as_one_process(prefix: str) -> None:
    """The first line, which is read before its prefix is known, does not hide those of the same process behind it."""
    for name, lines, truth in LIVE:
        if not name.startswith(UNCLEAR):
            reader = LogReader()
            found = [one for line in lines for one in (*reader.feed((prefix + line).encode()), *reader.release())]
            assert places(found + reader.close()) == truth, name
