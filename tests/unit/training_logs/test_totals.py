"""Where a log says how long its run is."""

from hypothesis import given
from hypothesis import strategies as st

from steepest.training_logs import LogReader, LossRecord
from steepest.training_logs.place import RunLength


def read(text: str) -> list[LossRecord]:
    """All records of a text."""
    reader = LogReader()
    return reader.feed(text.encode()) + reader.close()


def test_settings_that_a_script_prints_announce_its_epochs() -> None:
    """With the batches of an epoch, which the lines behind it state, they give a total."""
    found = read(
        "Namespace(batch_size=32, epochs=90, warmup_epochs=5, lr=0.1)\n"
        "Epoch: [0][  400/5000]\tTime  0.3 ( 0.4)\tLoss 6.5e+00 (7.0e+00)\n"
    )
    assert [(one.step, one.total, one.epochs) for one in found if one.metric == "loss"] == [(400, 450_000, 90)]
    lengths = LogReader()
    lengths.feed(b"args: Namespace(max_iters=600, n_epochs=0)\nNamespace(epochs='many', max_steps=-1)\n")
    lengths.release()
    assert lengths.snapshot().stream.run == RunLength(total=600)


def test_epochs_that_its_user_announced_complete_a_log_without_any() -> None:
    """The batches of an epoch stand in its lines, the epochs do not; what a log says itself counts more."""
    line = b"Epoch: [0][  400/5000]\tTime  0.3 ( 0.4)\tLoss 6.5e+00 (7.0e+00)\n"
    announced = LogReader(epochs=90)
    found = announced.feed(line) + announced.close()
    assert {(one.step, one.total, one.epochs) for one in found} == {(400, 450_000, 90)}
    said = LogReader(epochs=90)
    found = said.feed(b"Namespace(epochs=3)\n" + line) + said.close()
    assert {one.total for one in found} == {15_000}


def test_a_reader_that_is_restored_knows_the_total() -> None:
    """What a header stated is part of its state."""
    first = LogReader()
    first.feed(b"Epoch 1/5\n10/10 - 1s - loss: 0.5 - 3ms/step\n")
    again = LogReader(state=first.snapshot())
    again.feed(b"Epoch 2/5\n10/10 - 1s - loss: 0.25 - 3ms/step\n")
    assert [one.total for one in again.close()] == [50, 50]


@given(st.binary(max_size=300))
def test_any_settings_are_read_or_not(line: bytes) -> None:
    """No bytes break it, and what it finds is a positive number."""
    reader = LogReader()
    reader.feed(b"Namespace(" + line)
    reader.close()
    run = reader.snapshot().stream.run
    assert all(one is None or one > 0 for one in (run.total, run.epochs))
