"""What must hold of the reader for any log: chunks, crashes, noise and values change nothing."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steepest.training_logs import LogReader, LossRecord, ReaderState
from steepest.training_logs.syntax import line_splitter
from steepest.training_logs.syntax.prefixes import learn

CASES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "unit" / "training_logs" / "cases").glob("*.txt"))
}

NOISE = (
    b"NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P",
    b"  dynamic_loss_scale .............. True",
    b"Traceback (most recent call last):",
    b"Namespace(loss_scale=0.0, prediction_loss_only=False, lr=0.1)",
    b'print(f"step:{step}/{steps} train_loss:{loss:.4f}")',
    b"WARNING: loss function was not set",
    b"\xff\xfe\x00 not text",
    b"",
)


MOST_TO_LEARN = 3
"""Lines too few to tell a prefix of a word and a number from a step."""


def log_of(name: str) -> bytes:
    """The first case's log of a format."""
    return text_of(CASES[name].split("\n\n")[0]).encode()


def text_of(block: str) -> str:
    """The log of a case."""
    text = "".join(line[2:] + "\n" for line in block.splitlines() if line.startswith(">"))
    for written, character in (("\\t", "\t"), ("\\r", "\r"), ("\\b", "\b"), ("\\e", "\x1b")):
        text = text.replace(written, character)
    return text


LOGS = {name: log_of(name) for name in CASES}
ALL_LOGS = [
    text.encode()
    for name in ("wild", "common", "odd", "frameworks", "forum")
    for block in CASES[name].strip().split("\n\n")
    if len((text := text_of(block)).splitlines()) > MOST_TO_LEARN
]
"""Logs that are long enough for a prefix to be seen."""

untimed = settings(deadline=None)
"""A busy machine is no defect."""

names = st.sampled_from(sorted(LOGS))
values = st.floats(allow_nan=False, allow_infinity=False, width=32).map(abs)


def read(data: bytes, format: str = "auto") -> list[LossRecord]:  # noqa: A002 - the reader's own word
    """All records of a log."""
    reader = LogReader(format)
    return reader.feed(data) + reader.close()


def comparable(records: Sequence[object]) -> list[str]:
    """Records as text, in which NaN equals NaN."""
    return [repr(record) for record in records]


@untimed
@given(names, st.data())
def test_how_the_bytes_arrive_changes_nothing(name: str, data: st.DataObject) -> None:
    """However a log is cut to chunks, its records, their lines and their positions are the same."""
    log = LOGS[name] * 2
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=12)))
    reader = LogReader()

    records = [
        record
        for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True)
        for record in reader.feed(log[start:end])
    ]

    assert comparable(records + reader.close()) == comparable(read(log))


@untimed
@given(names, st.data())
def test_a_restored_reader_goes_on_as_if_it_had_never_stopped(name: str, data: st.DataObject) -> None:
    """State saved anywhere, through JSON, and fed from its offset on: together the records of one reading."""
    log = LOGS[name] * 2
    cut = data.draw(st.integers(0, len(log)))
    first = LogReader()
    before = first.feed(log[:cut])
    saved = msgspec.json.encode(first.snapshot())

    second = LogReader(state=msgspec.json.decode(saved, type=ReaderState))
    after = second.feed(log[second.snapshot().place.offset :]) + second.close()

    assert comparable(before + after) == comparable(read(log))


@untimed
@given(names, st.data())
def test_positions_grow_and_lie_in_their_lines(name: str, data: st.DataObject) -> None:
    """(position, index) grows strictly, and the position lies behind the record's own line."""
    noise = data.draw(st.lists(st.sampled_from(NOISE), max_size=3))
    log = b"".join(line + b"\n" for line in noise) + LOGS[name]
    records = read(log)

    places = [(record.position, record.index) for record in records]
    assert places == sorted(set(places))
    assert all(log.count(b"\n", 0, record.position - 1) + 1 == record.line for record in records)


@untimed
@given(names, st.lists(st.tuples(st.integers(0, 30), st.sampled_from(NOISE)), max_size=10))
def test_noise_between_the_lines_is_passed_over(name: str, noise: list[tuple[int, bytes]]) -> None:
    """Settings, source, traces and bytes that are no text, between the lines, add and take no record."""
    lines = LOGS[name].split(b"\n")[:-1]
    for at, line in noise:
        lines.insert(min(at, len(lines)), line)

    noisy = read(b"\n".join(lines) + b"\n")

    expected = [(one.step, one.metric, one.split) for one in read(LOGS[name])]
    assert [(one.step, one.metric, one.split) for one in noisy] == expected


SHAPES = {
    "megatron": " iteration {step:8d}/ 1000 | lm loss: {value:.6E} | loss scale: 12.0 |",
    "keras": "Epoch 1/1\n{step}/1000 [====>.....] - ETA: 2s - {extra}loss: {value}",
    "huggingface": "{{'loss': {value}, {extra}'step': {step}}}",
    "mmengine": "Epoch(train)  [1][{step}/1000]  {extra}lr: 1.0e-01  loss: {value}  time: 0.01",
    "fairseq": "| epoch 001:   {step} / 1000 {extra}loss={value}, num_updates={step}",
    "gluon": "[Epoch 1 Batch {step}/1000] {extra}loss={value}, lr=0.1",
    "paddle": "epoch: [1/2], global_step: {step}, {extra}loss: {value}, lr: 0.1",
    "key-value": "{extra}loss={value} step={step}",
    "json-lines": '{{"step": {step}, "loss": {value}}}',
    "steepest-sdk": '{{"step": {step}, "epoch": null, "at_ms": 1, "metrics": {{"loss": {value}}}}}',
    "maxtext": "completed step: {step}, seconds: 1.5, {extra}loss: {value}",
    "clu": "I0307 16:47:19.137082 139712345678 logging_writer.py:48] [{step}] {extra}loss={value}",
}
EXTRAS = {
    "keras": "accuracy: 0.5 - ",
    "huggingface": "'grad_norm': 2.5, ",
    "mmengine": "eta: 6:12:01  ",
    "fairseq": "ppl=61.5, ",
    "gluon": "acc=0.5, ",
    "paddle": "acc: 0.5, ",
    "key-value": "lr=0.1 ",
    "maxtext": "TFLOP/s/device: 167.0, ",
    "clu": "grad_norm=0.5, ",
}


@untimed
@given(st.sampled_from(sorted(SHAPES)), st.lists(values, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_values_fields_and_prefixes_may_differ(name: str, losses: list[float], extra: bool, tagged: bool) -> None:  # noqa: FBT001
    """Any values, further fields and a rank's prefix: each line still yields its step and its value."""
    field = EXTRAS.get(name, "") if extra else ""
    lines = [SHAPES[name].format(step=step, value=value, extra=field) for step, value in enumerate(losses, 1)]
    tag = "[1,0]<stdout>:" if tagged else ""
    log = "".join(f"{tag}{line}\n" for line in "\n".join(lines).split("\n"))

    records = [record for record in read(log.encode(), name) if "loss" in record.metric]

    assert [record.step for record in records] == list(range(1, len(losses) + 1))
    assert all(
        math.isclose(record.value, value, rel_tol=1e-6, abs_tol=1e-300)
        for record, value in zip(records, losses, strict=True)
    )


@untimed
@given(st.integers(1, 40), st.integers(1, 4), st.randoms(use_true_random=False))
def test_ranks_in_any_order_are_one_job(steps: int, ranks: int, random: object) -> None:
    """However tagged ranks interleave, each step is one record, in order."""
    waiting = [[f"[1,{rank}]<stdout>:step={step} loss={step}.{rank}" for step in range(steps)] for rank in range(ranks)]
    lines = []
    while any(waiting):
        queue = random.choice([queue for queue in waiting if queue])  # type: ignore[attr-defined]
        lines.append(queue.pop(0))

    assert [record.step for record in read("\n".join(lines).encode() + b"\n")] == list(range(steps))


@untimed
@given(st.integers(10, 60), st.integers(0, 50))
def test_a_restart_is_read_again(steps: int, back_to: int) -> None:
    """A run that goes back and prints other values is read again from there on."""
    again = min(back_to, steps - 1)
    first = [f"step={step} loss={1 / (step + 1):.6f}" for step in range(steps)]
    second = [f"step={step} loss={2 / (step + 1):.6f}" for step in range(again, steps + 5)]

    read_steps = [record.step for record in read("\n".join(first + second).encode() + b"\n")]

    assert read_steps == [*range(steps), *range(again if again < steps - 1 else steps, steps + 5)]


@untimed
@given(st.lists(st.text(max_size=60), max_size=12))
def test_prefixes_are_patterns_with_an_end(lines: list[str]) -> None:
    """Whatever lines are learned from, each prefix is a pattern that matches at a line's start, or nowhere."""
    for pattern in learn(lines):
        assert all(found is None or found.start() == 0 for found in (re.match(pattern, line) for line in lines))


PREFIXES = (
    "2024-02-03T10:00:00.123456789Z stdout F ",
    "trainer-1  | ",
    "[rank0]: ",
    "[default0]:",
    "node17: ",
    "(RayTrainWorker pid=7101, ip=10.0.0.2) ",
    "[1,0]<stdout>:",
    "2024-02-03 10:00:00,123 - INFO - ",
    "I0203 10:00:00.123456 140012345678 train.py:146] ",
    "Feb 03 10:00:01 node17 python[712]: ",
    "train-0 trainer ",
)


def training(records: list[LossRecord]) -> Counter[tuple[object, ...]]:
    """What is read of training, apart from where it stands."""
    return Counter(
        (None if one.step_counted else one.step, repr(one.value), one.total) for one in records if one.split == "train"
    )


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_changes_nothing(prefix: str) -> None:
    """What another program puts before each line of a log does not change what is read of it."""
    for log in ALL_LOGS:
        behind = b"".join(prefix.encode() + line + b"\n" for line in log.rstrip(b"\n").split(b"\n"))
        assert training(read(behind)) == training(read(log)), log


def test_a_second_rank_changes_nothing() -> None:
    """A rank that prints each line once more does not change what is read, whichever of the two is first."""
    for log in ALL_LOGS:
        lines = [] if b"\r" in log or b"<stdout>" in log else log.rstrip(b"\n").split(b"\n")
        two = b"".join(b"[1,0]<stdout>:%b\n[1,1]<stdout>:%b\n" % (line, line) for line in lines)
        assert not lines or training(read(two)) == training(read(log)), log


def check_cutting(limit: int, more: int, chunk: int) -> None:
    """Feed a line that is longer than a limit, and a short one, in chunks."""
    long = b"step=1 loss=0.5 " + b"x" * limit + b"loss=0.7" * more
    log = long + b"\nstep=2 loss=0.25\n"
    reader = LogReader()

    records = [record for at in range(0, len(log), chunk) for record in reader.feed(log[at : at + chunk])]
    records += reader.close()

    assert [(record.step, record.line) for record in records] == [(1, 1), (2, 2)]
    assert reader.cut_lines == 1
    assert records[1].position == len(log)


@untimed
@given(st.integers(0, 400), st.integers(1, 6_000))
def test_a_line_that_is_too_long_is_cut_and_counted(more: int, chunk: int) -> None:
    """A line over the limit is read to there, counted, and takes nothing of the next line, however it arrives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_splitter, "MAX_LINE_BYTES", 2_048)
        patch.setattr(line_splitter, "_PIECE_BYTES", 512)
        check_cutting(2_048, more, chunk)


def test_the_limit_of_a_line_is_a_mebibyte() -> None:
    """The same with the limit as it is, which is too slow for many examples."""
    check_cutting(1 << 20, more=3, chunk=1 << 16)


def test_a_restored_reader_needs_no_more_than_its_state() -> None:
    """The state of a reader that has read a lot stays small enough to be saved with every report."""
    reader = LogReader()
    for step in range(20_000):
        reader.feed(f"step={step} loss={step}\n".encode())

    assert len(msgspec.json.encode(reader.snapshot())) < 32_768


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_log_without_its_last_line_end_is_read_in_full(name: str) -> None:
    """A job that ends without a newline loses nothing."""
    log = LOGS[name]

    assert [one.value for one in read(log.rstrip(b"\n"))].__repr__() == [one.value for one in read(log)].__repr__()


SETTLED = (
    "Epoch {epoch} iteration {index:04d}/0020: training loss {value}",
    "Epoch: [{epoch}][{index}/20]  Time 0.1 (0.2)  Loss {value} (2.5)",
    "step {step} | epoch {epoch} | loss {value} | lr 1e-4",
    "{{'loss': {value}, 'grad_norm': 2.5, 'epoch': {epoch}.5}}",
    "[Epoch {epoch}] train=0.5 loss={value}",
    "Epoch {epoch}: {percent:3d}%|####      | {index}/20 [00:03<05:01,  2.21it/s, loss={value}]",
    "Epoch {epoch}, validation pixAcc: {value}, mIoU: 0.25",
    "Epoch {epoch}, validation pixAcc: {value}, mIoU: 0.25: {percent:3d}%|###  | {index}/20 [00:03<05:01,  2.21it/s]",
    "iter {step}: loss {value}, time 2.5ms",
    '{{"step": {step}, "loss": {value}}}',
    "[Epoch {epoch}] train avg loss {value}, dev acc 0.5, dev avg loss {value}",
    "Epoch [{epoch}][{index}/20] loss {value} val_loss 2.5",
    "Epoch[{epoch}] Batch [{index}]  accuracy=0.5  lr=0.1",
    '{{"step": {step}, "epoch": {epoch}, "at_ms": 17{step}, "metrics": {{"loss": {value}}}}}',
    '{{"step": {step}, "epoch": {epoch}.5, "total": 5000, "metrics": {{"loss": {value}, "val_loss": 2.5}}}}',
    "[{epoch}, {index:5d}] loss: {value}",
    "Epoch : {epoch}, Batches complete :{index}",
    "[Batch {index}/20] elapsed {value} s",
    "Iteration {step} of 4000",
    "Train loss {value}, Acc 0.5",
    "epoch {epoch} step {index} loss: {value}",
    "{index}/20 [=====>......] - ETA: 3s - loss: {value} - accuracy: 0.5",
    "{index}/20 [==========] - 3s 2ms/step - loss: {value} - val_loss: 2.5",
    " {percent:3d}%|####      | {step}/2400 [00:03<05:01,  2.21it/s]",
    "Loss: {value}:  {percent:3d}%|####      | {index}/20 [00:03<05:01,  2.21it/s]",
    "{{'eval_loss': {value}, 'eval_runtime': 2.5, 'epoch': {epoch}.5}}",
    "{{'train_loss': {value}, 'epoch': {epoch}}}",
    '{{"epoch": {epoch}, "train_loss": {value}, "val_acc": 0.5}}',
    "[1,0]<stdout>:step {step} loss {value}",
    "[1,1]<stdout>:step {step} loss {value}",
    "    {epoch}    {value}    0.5",
    "{epoch},{step},{value}",
    "| {epoch} | {step} | {value} |",
    "val_loss: {value} at step {step}",
    "Test: [{index}/20] Loss {value} Acc 0.5",
    "* Acc 0.5 Loss {value}",
    "Accuracy: 0.5, F1: {value}",
    "total_steps: 4000 step: {step} loss: {value}",
    "Epoch {epoch} finished, average loss {value}",
    "I1128 10:00:0{epoch} {step} solver.cpp:228] Iteration {step}, loss = {value}",
    "lr: 0.1 step: {step}",
    "global_step {step} epoch {epoch} batch {index}/20 loss {value}",
    "[{index}/20][{epoch}/9] D_loss: {value} G_loss: 2.5",
    "('{percent} %', 'train_loss:', '{value}', 'train_acc:', 0.5)",
    "valid_loss {value}, valid_p 90.5, valid_f1 85.5",
    "Train loss {step} {value} Grad Norm 2.5",
    "loss {value} 2.5",
    "train rmse {value} val rmse 2.5",
    " * Average accuracy 0.5; Average Loss {value}",
    "Mean test loss of 8 batches: {value}",
    "epoch {epoch}: train mse {value}",
    "epoch/iter: {epoch}/{step}  total_loss: {value}  loss_cls: 2.5",
    "step: {step}/ 4000 loss:{value} 2.25 imps:26.6",
)
OTHERS = (
    "Epoch {epoch}",
    "saving at step {step}",
    "Validation:",
    "Begin Testing...",
    "[1,1]<stdout>:step {step} | epoch {epoch} | loss {value} | lr 1e-4",
    "loss: {value}",
    "step {step}: train loss {value}, val loss 2.5",
    "noise {step}",
    "    epoch    loss",
    "    {epoch}    {value}",
    "    epoch    train_loss    val_acc",
    "epoch,step,loss",
    "| Training | Validation |",
    "| loss | {value} | 2.5 |",
    "Epoch {epoch}/9",
    "Begin epoch {epoch}",
    "Training:",
    "Iteration: {step}/4000",
    "[{epoch}/9][{index}/20]",
    "  loss: {value}\n  step: {step}",
    "total_steps = 4000",
    "def f(x): return x",
    "Test set: Average loss: {value}, Accuracy: 50/100",
    " {percent:3d}%|####      | {index}/20 [00:03<05:01,  2.21it/s, loss={value}]\r",
    "{index}/50 [=====>......] - loss: {value}",
    "best loss {value} at epoch {epoch}",
    "restarted at step 0\nstep 0 | epoch 0 | loss {value} | lr 1e-4",
    "# epoch    train_rmse    val_rmse",
    "Validate model...",
    "Validation Summary Epoch: [{epoch}] Average WER {value}",
)


@untimed
@given(
    st.lists(st.sampled_from(SETTLED), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(OTHERS)), max_size=6),
    st.lists(st.sampled_from(("0.5", "nan", "1e-3", "2.25", "3")), min_size=1, max_size=5),
    st.integers(1, 25),
    st.sampled_from(("\n", "\n", "\r")),
)
def test_the_short_way_reads_what_the_long_way_reads(
    shapes: list[str], others: list[tuple[int, str]], values: list[str], stride: int, end: str
) -> None:
    """Lines of settled shapes, among any others, give the records and the series that taking each line apart gives."""
    log = ""
    for step in range(120):
        epoch, index = divmod(step * stride, 20)
        form = {
            "epoch": epoch,
            "index": index,
            "step": step * stride,
            "value": values[step % len(values)],
            "percent": 5 * index,
        }
        for at, other in others:
            log += other.format(**form) + "\n" if at == step else ""
        for shape in shapes:
            log += shape.format(**form) + end
    short, long = LogReader(), LogReader()
    long._compiles = False  # the only difference
    short_records = short.feed(log.encode()) + short.close()
    long_records = long.feed(log.encode()) + long.close()

    assert comparable(short_records) == comparable(long_records)
    assert comparable(list(short.snapshot().stream.lanes.values())) == comparable(
        list(long.snapshot().stream.lanes.values())
    )
