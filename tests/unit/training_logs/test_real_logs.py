"""The reader on real logs: it finds the losses that a slow, plain count finds, and no others."""

import os
from collections import Counter
from pathlib import Path

import pytest

from steepest.training_logs import LogReader

from .truth import training_losses


def folder() -> Path | None:
    """Where the real logs are: ``$STEEPEST_DATA/logs``, or beside the repository."""
    named = os.environ.get("STEEPEST_DATA")
    data = Path(named) if named else Path(__file__).parents[4] / "shared" / "data"
    return data / "logs" if (data / "logs").is_dir() else None


LOGS = folder()
FILES = [] if LOGS is None else sorted(path for path in LOGS.rglob("*") if path.is_file())

absent = pytest.mark.skipif(not FILES, reason="no real logs: set STEEPEST_DATA to a folder that holds logs/")


@absent
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LOGS)))
def test_it_finds_what_a_plain_count_finds(path: Path) -> None:
    """On a real log, precision and recall of the training losses are at least 0.999, line by line and value by value."""
    true = Counter(training_losses(path, path.relative_to(LOGS or path).parts[0]))
    reader = LogReader()
    found = Counter(
        (record.line, record.value)
        for record in reader.feed(path.read_bytes()) + reader.close()
        if record.split == "train"
    )

    right = (true & found).total()
    assert right >= 0.999 * true.total(), f"recall: {right} of {true.total()}; missed {list(true - found)[:5]}"
    assert right >= 0.999 * found.total(), f"precision: {right} of {found.total()}; wrong {list(found - true)[:5]}"


@absent
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LOGS)))
def test_no_run_is_past_its_total(path: Path) -> None:
    """A real log that states how long it trains stays within that, and states one total only."""
    reader = LogReader()
    records = reader.feed(path.read_bytes()) + reader.close()
    trained = [one for one in records if one.split == "train" and not one.step_counted]

    assert all(one.step <= one.total for one in trained if one.step is not None and one.total is not None)
    assert len({one.total for one in trained if one.total is not None}) <= 1


@absent
def test_most_readings_have_a_place_and_a_length() -> None:
    """Of real training losses, 95 in 100 have a written step or an epoch, and 90 in 100 the length of the whole run.

    One log states neither on any line: its epochs are named when they are over, and its lines a per cent.
    """
    trained = [
        one
        for path in FILES
        if path.name != "log_region_embedding_db.txt"
        for one in LogReader().feed(path.read_bytes())
        if one.split == "train"
    ]
    placed = sum(not one.step_counted or one.epoch is not None for one in trained)
    known = sum(one.total is not None or one.epochs is not None for one in trained)

    assert placed >= 0.95 * len(trained)
    assert known >= 0.9 * len(trained)


@absent
def test_the_plain_count_finds_what_is_known_of_these_logs() -> None:
    """The count itself is right where the number is known: 62 and 49 Megatron iterations, 100 epochs of two runs."""
    known = {
        "meg_ds_3d_gpt2_perf_n16-ds-off.out": 62,
        "meg_ds_3d_gpt2_perf_n16-ds-on.out": 49,
        "fcn_resnet50_voc.log": 100,
    }
    counted = {
        path.name: len(training_losses(path, path.relative_to(LOGS or path).parts[0]))
        for path in FILES
        if path.name in known
    }

    assert counted == known
