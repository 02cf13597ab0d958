"""The reader on one stream of each of the commonest formats, and on the traps that real logs set."""

import msgspec
import pytest

from steepest.training_logs import Explanation, FormatError, LogReader, LossRecord, PatternError


def read(text: str, **settings: str) -> list[LossRecord]:
    """All records of a text."""
    reader = LogReader(**settings)  # type: ignore[arg-type]
    return reader.feed(text.encode()) + reader.close()


def brief(records: list[LossRecord]) -> list[tuple[int | None, str, float, str]]:
    """What matters most of each record."""
    return [(one.step, one.metric, one.value, one.split) for one in records]


def test_sdk_reports_carry_step_epoch_and_split() -> None:
    """The SDK's reports are read with their own step and epoch, and ``val_`` names are held-out."""
    records = read(
        '{"step": 12, "epoch": 3, "at_ms": 1763683200000, "metrics": {"loss": 0.25, "val_loss": 0.5}}\n'
        '{"step": 13, "epoch": 3, "at_ms": 1763683200100, "metrics": {"loss": NaN}}\n'
    )

    assert brief(records)[:2] == [(12, "loss", 0.25, "train"), (12, "val_loss", 0.5, "eval")]
    assert records[2].value != records[2].value
    assert [one.epoch for one in records] == [3, 3, 3]
    assert {one.format for one in records} == {"steepest-sdk"}


def test_keras_redraws_are_steps_of_their_epoch() -> None:
    """Each redraw of Keras' bar is a step; a bar without a header behind a finished epoch is an evaluation."""
    records = read(
        "Epoch 1/2\n"
        "1/3 [=>......] - ETA: 2s - loss: 0.9000\b\b\b\b\r2/3 [====>...] - ETA: 1s - loss: 0.8000\r"
        "3/3 [========] - 3s 1s/step - loss: 0.7000 - accuracy: 0.5 - val_loss: 0.6000 - val_accuracy: 0.7\n"
        "Epoch 2/2\n3/3 [========] - 3s 1s/step - loss: 0.5000 - accuracy: 0.5 - val_loss: 0.4000\n"
        "2/2 [========] - 0s 1ms/step - loss: 0.3500 - accuracy: 0.9\n"
    )

    assert brief(records) == [
        (1, "loss", 0.9, "train"),
        (2, "loss", 0.8, "train"),
        (3, "loss", 0.7, "train"),
        (3, "val_loss", 0.6, "eval"),
        (3, "val_accuracy", 0.7, "eval"),
        (6, "loss", 0.5, "train"),
        (6, "val_loss", 0.4, "eval"),
        (6, "loss", 0.35, "eval"),
        (6, "accuracy", 0.9, "eval"),
    ]


def test_keras_3_bars_and_colours() -> None:
    """Keras 3's bar, in colours and with the loss behind the accuracy, is read too."""
    records = read(
        "Epoch 1/5\n\x1b[1m1875/1875\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m4s\x1b[0m 2ms/step "
        "- accuracy: 0.92 - loss: 0.26\n"
    )

    assert brief(records) == [(1875, "loss", 0.26, "train")]


def test_pytorch_mnist_counts_its_steps() -> None:
    """The example's brackets count samples, so the step is counted and says so."""
    records = read(
        "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.30\nTrain Epoch: 1 [640/60000 (1%)]\tLoss: 2.20\n"
        "\nTest set: Average loss: 0.2449, Accuracy: 9312/10000 (93%)\n"
    )

    assert brief(records) == [
        (1, "loss", 2.30, "train"),
        (2, "loss", 2.20, "train"),
        (1, "loss", 0.2449, "eval"),
        (1, "accuracy", 0.9312, "eval"),
    ]
    assert [one.step_counted for one in records] == [True] * 4


def test_hugging_face_behind_its_bar() -> None:
    """A dictionary is found behind a bar on its line, the bar gives the step, and the closing sum is no record."""
    records = read(
        " 13%|#3   | 311/2436 [3:57:53<27:02:47, 45.82s/it]{'loss': 1.08, 'learning_rate': 9.7e-05, 'epoch': 0.13}\n"
        " 26%|##6  | 622/2436 [7:57:53<20:02:47, 45.82s/it]{'loss': nan, 'learning_rate': 9e-05, 'epoch': 0.26}\n"
        "{'eval_loss': 0.9, 'eval_runtime': 2.0, 'epoch': 0.26}\n"
        "{'train_runtime': 273.0, 'train_loss': 0.99, 'epoch': 1.0}\n"
    )

    assert [(one.step, one.metric, one.epoch) for one in records] == [
        (311, "loss", 0.13),
        (622, "loss", 0.26),
        (622, "eval_loss", 0.26),
    ]


def test_pairs_with_their_own_step() -> None:
    """``name=value`` lines are read with the step they print, and settings of the same look are not."""
    records = read("loss_scale=1024 loss_fn=3\nepoch=1 step=40 loss=0.25 lr=0.1\nepoch=1 step=41 loss=inf lr=0.1\n")

    assert brief(records) == [(40, "loss", 0.25, "train"), (41, "loss", float("inf"), "train")]


def test_an_own_pattern_replaces_the_formats() -> None:
    """A job's own RE2 expression says value and step; other lines are not read."""
    records = read("it 7 cost: 0.5\nloss=3\nit 8 cost: 0.4\n", pattern=r"it (?P<step>\d+) cost: (?P<value>\S+)")

    assert brief(records) == [(7, "loss", 0.5, "train"), (8, "loss", 0.4, "train")]


def test_a_bad_pattern_names_itself() -> None:
    """An expression that RE2 refuses is an error that quotes it."""
    with pytest.raises(PatternError, match=r"\(\?=a\)"):
        LogReader(pattern="(?=a)")


def test_an_unknown_format_suggests_one() -> None:
    """A misspelled format's name is an error that names the nearest."""
    with pytest.raises(FormatError, match="did you mean keras"):
        LogReader("kerras")


def test_two_ranks_are_one_job() -> None:
    """What two ranks print of the same step is one record, also when one of them lags."""
    lines = [f"[1,{rank}]<stdout>:step={step} loss={step}.{rank}" for step in range(6) for rank in (0, 1)]
    lagging = [*lines[::2], *lines[1::2]]

    assert [one.step for one in read("\n".join(lines) + "\n")] == list(range(6))
    assert [one.step for one in read("\n".join(lagging) + "\n")] == list(range(6))


def test_a_restart_that_goes_back_is_read_again() -> None:
    """Steps printed once more by a restarted run are records, unlike a second printing of the same lines."""
    first = [f"step={step} loss={1 / (step + 1)}" for step in range(30)]
    again = [f"step={step} loss={1.5 / (step + 1)}" for step in range(25, 35)]

    assert [one.step for one in read("\n".join(first + again) + "\n")] == [*range(30), *range(25, 35)]
    assert [one.step for one in read("\n".join(first + first[-4:]) + "\n")] == list(range(30))


def test_lines_and_positions_name_the_source() -> None:
    """A record carries its line and the offset behind it, also after noise."""
    text = "noise\n\nstep=1 loss=0.5\r\nnoise\nstep=2 loss=0.4\n"
    records = read(text)

    assert [one.line for one in records] == [3, 5]
    assert [text.encode()[: one.position].rstrip().rsplit(b"\n")[-1] for one in records] == [
        b"step=1 loss=0.5",
        b"step=2 loss=0.4",
    ]


def test_a_detectors_sum_is_taken_only_if_asked_for() -> None:
    """Part losses come under their own names; the metric ``sum`` adds them up, or takes a total that is printed."""
    parts = "[Epoch 0][Batch 99], Speed: 11.7 samples/sec, RPN_Conf=0.5,RPN_SmoothL1=0.25\n"
    total = "Epoch(train)  [1][1/20]  loss_cls: 1.5  loss_bbox: 0.5  loss: 2.0\n"

    assert [one.metric for one in read(parts)] == ["RPN_Conf", "RPN_SmoothL1"]
    assert brief(read(parts, metric="sum")) == [(1, "loss_sum", 0.75, "train")]
    assert brief(read(total, metric="sum")) == [(1, "loss", 2.0, "train")]


def test_a_named_metric_is_reported_alone_wherever_it_is_printed() -> None:
    """A job may ask for what is not reported by itself: here a training accuracy, and a part beside its total."""
    gluon = "Epoch[0] Batch [49]\tSpeed: 849.9 samples/sec\taccuracy=0.5\tlr=0.001\n"
    mmengine = "Epoch(train)  [1][1/20]  loss_cls: 1.5  loss_bbox: 0.5  loss: 2.0\n"

    assert [one.metric for one in read(gluon)] == []
    assert [one.value for one in read(gluon, metric="accuracy")] == [0.5]
    assert [one.value for one in read(mmengine, metric="loss-cls")] == [1.5]


def test_a_series_has_written_steps_or_counted_ones() -> None:
    """A loss that is printed before training, without a step, is not mixed with those that have one."""
    records = read("loss=9.5\n" + "".join(f"Epoch(train)  [1][{at}/20]  loss: 2.0  loss_cls: 1.0\n" for at in (1, 2)))

    assert [(one.step, one.value) for one in records] == [(1, 2.0), (2, 2.0)]


def explained(text: str) -> Explanation:
    """How the lines of a text are read."""
    reader = LogReader(explain=True)
    reader.feed(text.encode())
    reader.close()
    assert reader.explanation is not None
    return reader.explanation


def test_skipped_lines_carry_their_reason() -> None:
    """What looks like a loss and was not taken is kept for people, with the reason."""
    found = explained("  loss_scale ........ 12.0\nBest validation loss 3.65\nstep=1 loss=0.5\nstep=1 loss=0.5\n")

    assert [(one.line, one.reason) for one in found.skipped] == [
        (1, "says the loss scale, not a loss"),
        (2, "sums the run up"),
        (4, "repeats a step that was read already"),
    ]


def test_lines_are_shown_as_they_are_read() -> None:
    """Each number of a line has its role: here a step, its total, and a loss."""
    ((line, pieces),) = explained("step 1/9 | loss 0.5\nstep 2/9 | loss 0.25\n").lines()

    assert line == 1
    assert [(text, role) for text, role in pieces if role] == [("1", "step"), ("9", "total"), ("0.5", "loss")]


def test_a_log_of_unknown_words_gets_a_pattern_that_reads_it() -> None:
    """The suggested expression finds the values and the steps of the lines that nothing else could read."""
    text = "".join(f"[gizmo] tick {tick} -> wobble {1 / tick:.3f}\n" for tick in range(1, 9))
    pattern = explained(text).suggestion()

    assert read(text) == []
    assert pattern is not None
    assert brief(read(text, pattern=pattern)) == [(tick, "loss", round(1 / tick, 3), "train") for tick in range(1, 9)]


def test_a_rotated_log_goes_on() -> None:
    """A new source of the same job restarts positions and lines; what was read before is still known."""
    reader = LogReader()
    before = reader.feed(b"step=1 loss=0.5\nstep=2 loss=0.4")
    rest = reader.begin_source()
    after = reader.feed(b"step=2 loss=0.4\nstep=3 loss=0.3\n") + reader.close()

    assert [(one.step, one.line) for one in before + rest + after] == [(1, 1), (2, 2), (3, 2)]
    assert after[0].position == 32


def test_half_a_character_in_a_name_can_be_kept() -> None:
    """JSON may spell one, and UTF-8 has none: neither the record nor the state may hold it."""
    reader = LogReader()
    records = reader.feed(b'{"step": 1, "metrics": {"\\ud800loss": 1.0}}\n') + reader.close()

    assert [record.metric for record in records] == ["?loss"]
    assert msgspec.msgpack.encode((reader.snapshot(), records))


@pytest.mark.parametrize("epoch", ["0.1e9991", "1e999", "-0.1e9991", "0.1e300", "NaN"])
@pytest.mark.parametrize(
    "line",
    [
        "{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': {}}}\n",
        '{{"step": 12, "epoch": {}, "at_ms": 1763683200000, "metrics": {{"loss": 0.25}}}}\n',
        '[train][INFO] - {{"epoch": {}, "train_loss": "5.1", "num_updates": "12"}}\n',
        "epoch {}, loss 0.5\n",
        ':::MLLOG {{"key": "train_loss", "value": 0.5, "metadata": {{"epoch_num": {}}}}}\n',
    ],
)
def test_an_epoch_that_is_too_large_is_none(line: str, epoch: str) -> None:
    """Where steps follow from epochs too, as they do once a log has said how many of both there are."""
    header = "  Num Epochs = 3\n  Total optimization steps = 30\n"
    records = read(header + "{'loss': 3.5, 'learning_rate': 1e-05, 'epoch': 0.1}\n" + 3 * line.format(epoch))
    assert records
    assert all(abs(one.epoch or 0) < 10**15 for one in records)
