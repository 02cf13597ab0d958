"""Finds the steps and epochs of the whole run in the settings that many scripts print: ``Namespace(epochs=90, lr=0.1)``.

It owns that line and the names in it. What a script was started with is what it means to train.
"""

import re
from typing import NamedTuple

MARK = b"Namespace("
"""How argparse prints the settings of a script."""

_EPOCHS = re.compile(rb"[ (](?:num_|max_|n_|total_|num_train_)?epochs=(\d{1,9})[,)]")
_STEPS = re.compile(rb"[ (](?:max|total|num|num_train)_(?:steps|iters|iterations)=(\d{1,12})[,)]")


class Announced(NamedTuple):
    """The steps and epochs of the whole run; None where none are printed."""

    steps: int | None
    epochs: int | None


def announced(line: bytes) -> Announced | None:
    """What a line of settings announces; None if the line is another one."""
    begin = line.find(MARK)
    if begin < 0:
        return None
    return Announced(_positive(_STEPS.search(line, begin)), _positive(_EPOCHS.search(line, begin)))


def _positive(match: re.Match[bytes] | None) -> int | None:
    return int(match[1]) or None if match else None
