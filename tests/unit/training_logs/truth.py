"""How many training losses a real log holds: counted slowly and plainly, apart from the reader.

Each family's rules come from the scripts that wrote its logs. A training loss is a number that the training loop
printed as a loss, be it of a batch or the mean of an epoch, under whichever name, parts of a detector's loss included
when it prints no total; held-out losses, loss scales, settings and sums of the run are none. Every reading is given as
(line, value), so that what is found can be compared one by one.
"""

import json
import re
from pathlib import Path

Reading = tuple[int, float]

NUMBER = r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"

GLUON_BATCH = re.compile(r"Epoch ?:?\[? ?\d+\]?,? ?\[?(?:n_)?[Bb]atch:? ?\[?\d+")
"""GluonCV's and GluonNLP's batch lines: an epoch and a batch, in whichever brackets."""

GLUON_LOSSES = (
    "RPN_Conf",
    "RPN_SmoothL1",
    "RCNN_CrossEntropy",
    "RCNN_SmoothL1",
    "RPNL1Loss",
    "RCNNL1Loss",
    "CrossEntropy",
    "SmoothL1",
    "loss",
    "Loss",
    "avg loss",
)
"""What the scripts call a batch's loss: the detectors' four parts and two part metrics, and the plain names."""


def gluon_line(line: str) -> list[float]:
    """The training losses of one line of GluonCV or GluonNLP."""
    training = re.search(rf"training loss {NUMBER}", line)
    if training:
        return [float(training[1])]
    region = re.search(rf"'train_loss:', '{NUMBER}'", line)
    if region:
        return [float(region[1])]
    if GLUON_BATCH.search(line):
        return [
            float(value)
            for name in GLUON_LOSSES
            for value in re.findall(rf"(?<![\w]){re.escape(name)}[= ]{NUMBER}", _without_average(name, line))
        ]
    if re.search(r"\[Epoch \d+\] (?:training|train=|train avg|Training cost)|Epoch\[\d+\]\t", line):
        before_held_out = re.split(r" (?:dev|valid) ", line)[0]
        return [
            float(value)
            for name in GLUON_LOSSES
            for value in re.findall(rf"(?<![\w]){re.escape(name)}[= ]{NUMBER}", _without_average(name, before_held_out))
        ]
    return []


def _without_average(name: str, line: str) -> str:
    """``avg loss`` is a name of its own and not counted once more as ``loss``."""
    return line.replace("avg loss", "") if name == "loss" else line


def megatron_line(line: str) -> list[float]:
    """The language-model losses of a Megatron iteration line, which is split at its bars."""
    losses = []
    training = False
    for field in line.split("|"):
        if re.search(r"iteration +\d+/ *\d+ *$", field):
            training = True
        name, _, value = field.strip().partition(":")
        if training and name.strip() in ("lm loss", "lm-loss", "lm_loss"):
            losses.append(float(value))
    return losses


def mlperf_line(line: str) -> list[float]:
    """The training losses among MLPerf's events: the key ``train_loss``, alone or among tracked statistics."""
    _, mark, text = line.partition(":::MLLOG ")
    if not mark:
        return []
    event = json.loads(text)
    fields = event["value"] if isinstance(event["value"], dict) else {event["key"]: event["value"]}
    return [float(value) for name, value in fields.items() if name in ("train_loss", "loss")]


FAMILIES = {"gluon": gluon_line, "megatron": megatron_line, "mlperf": mlperf_line}


def training_losses(path: Path, family: str) -> list[Reading]:
    """All training losses of a log, in order, as (line, value); two runs in one file both count."""
    read = FAMILIES[family]
    text = path.read_bytes().decode("utf-8", "replace")
    return [
        (number, value)
        for number, line in enumerate(text.split("\n"), 1)
        for redraw in line.split("\r")
        for value in read(redraw)
    ]
