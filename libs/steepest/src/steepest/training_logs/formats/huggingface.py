"""Hugging Face ``Trainer``: a Python dictionary, often after a tqdm bar on the same line.

It owns the dictionary, the bar and the header that states the run's steps and epochs. The final dictionary
(``train_runtime``) summarises the run and is not a reading. Without a bar, the step follows from the epoch's fraction.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_evaluation,
    at_step,
    readings,
)
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import NUMBER, to_epoch, to_step

_DICTIONARY = re.compile(rb"\{'[^{}]{1,8000}\}")
_PAIRS = re.compile(rb"'([A-Za-z_][\w ./@-]{0,100})': '?(" + NUMBER + rb")")
_BAR = re.compile(rb"(?<![\d/])(\d{1,12})/(\d{1,12}) \[")
_TOTAL = re.compile(rb"^ {0,4}Total optimization steps = (\d{1,3}(?:,\d{3}){0,4}|\d{1,12})\s{0,4}$")
_EPOCHS = re.compile(rb"^ {0,4}Num Epochs = (\d{1,9}|\d{1,3}(?:,\d{3}){1,2})\s{0,4}$")
_STEPS = (b"step", b"global_step", b"global_steps")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    if header := _TOTAL.match(line.text):
        context.total = int(header[1].replace(b",", b""))
        return None
    if header := _EPOCHS.match(line.text):
        context.epochs = int(header[1].replace(b",", b""))
        return None
    found: list[Reading] = []
    mine = False
    at = 0
    for match in _DICTIONARY.finditer(line.text):
        pairs = _PAIRS.findall(match[0])
        of_interest = [name for key, _ in pairs if (name := read_name(key)).is_loss or name.split == "eval"]
        if of_interest and not any(key == b"train_runtime" for key, _ in pairs):
            mine = True
            evaluation = any(name.split == "eval" for name in of_interest)
            place = _place(pairs, line.text[at : match.start()], context, evaluation=evaluation)
            found += readings(pairs, place, context)
        at = match.end()
    return found if mine else None


def _place(pairs: list[tuple[bytes, bytes]], before: bytes, context: Context, *, evaluation: bool) -> RunPosition:
    fields = dict(pairs)
    epoch = to_epoch(fields.get(b"epoch"))
    step = next((step for key in _STEPS if (step := to_step(fields.get(key))) is not None), None)
    if step is not None:
        return at_step(context, step, epoch)
    if evaluation:
        return at_evaluation(context, epoch)
    bars = _BAR.findall(before)
    if bars:
        return at_step(context, int(bars[-1][0]), epoch, total=int(bars[-1][1]))
    total, epochs = context.total, context.epochs
    derived = round(total * epoch / epochs) if total and epochs and epoch is not None else None
    context.step = context.step if derived is None else derived
    return RunPosition(derived, epoch, None, total=total, epochs=epochs)


FORMAT = Format(
    name="huggingface",
    shape=" 13%|#3 | 311/2436 [1:02<9:21, 1.2s/it]{'loss': 1.0897, 'learning_rate': 9.7e-05, 'epoch': 0.13}",
    needles=(b"{'", b"Total optimization steps", b"Num Epochs = "),
    read=_read,
)
