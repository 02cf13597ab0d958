"""PyTorch's ``examples/mnist`` and the many scripts derived from it, with Kubeflow's variant ``loss=``.

It owns those two lines. The brackets count samples, not steps, so the reader counts the steps.
"""

import re

from steepest.training_logs.format import (
    Context,
    Format,
    LogLine,
    Reading,
    RunPosition,
    at_evaluation,
    readings,
    segments,
)
from steepest.training_logs.syntax.numbers import NUMBER

_HEAD = re.compile(rb"Train Epoch: (\d{1,9}) \[ {0,8}(\d{1,12})/(\d{1,12})[^\]]{0,40}\]")
_LOSS = re.compile(rb"\b([A-Za-z_ ]{0,20}[Ll]oss)(?:: {0,4}|=)(" + NUMBER + rb")")
_TEST = re.compile(rb"Average loss: {0,4}(" + NUMBER + rb")")
_RATIO = re.compile(rb"Accuracy: {0,4}(\d{1,12})/([1-9]\d{0,11})")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    parts = segments(_HEAD, line.text)
    if parts:
        found: list[Reading] = []
        for match, body in parts:
            context.epoch = int(match[1])
            at = RunPosition(None, context.epoch, (context.epoch, int(match[2])), epochs=context.epochs)
            found += readings(_LOSS.findall(body), at, context)
        return found
    test = _TEST.search(line.text)
    return None if test is None else _test(test, line.text, context)


def _test(test: re.Match[bytes], text: bytes, context: Context) -> list[Reading]:
    at = at_evaluation(context)
    pairs = [(b"loss", test[1])]
    if ratio := _RATIO.search(text):
        pairs.append((b"accuracy", repr(int(ratio[1]) / int(ratio[2])).encode()))
    return readings(pairs, at, context, split="eval")


FORMAT = Format(
    name="pytorch-mnist",
    shape="Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.297\nTest set: Average loss: 0.2449, Accuracy: 9312/10000 (93%)",
    needles=(b"Train Epoch: ", b"Average loss: "),
    read=_read,
)
