"""The jobs of Shockwave's traces, whose batch sizes change while they run.

Read from our profiles of its traces (uw-mad-dash/shockwave 8a44f4a, MIT): the batch size of each epoch, with the seconds
that it takes. In its simulator a change shows late: it is seen at the end of a round, takes effect after the job's next
micro-task, and rescales the steps to whole epochs. So what a scheduler sees of a job's rest is not what its profile says.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from steepest.errors import InputError

EXAMPLES = {"ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907}
"""Examples of an epoch by model, as its simulator has them."""

LARGEST = {"LM": 80, "ResNet-18": 256, "ResNet-50": 128, "Recommendation": 8_192, "Transformer": 128}
SMALLEST = {"ResNet-18": 16, "ResNet-50": 16, "Transformer": 16, "LM": 5, "Recommendation": 512}
NEVER_SCALED = ("Transformer",)


class ProfiledJob(msgspec.Struct, frozen=True):
    """A job of a trace.

    Attributes:
        mode: How its batch size changes: ``static``, ``accordion`` or ``gns``.
        steps: At its first batch size.
        alone_s: The whole job with its GPUs to itself.
        batch_sizes: Batch size, epochs with it, and seconds of such an epoch, in order.
    """

    job: int
    model: str
    gpus: int
    submit_s: float
    mode: str
    batch_size: int
    steps: int
    epochs: int
    alone_s: float
    batch_sizes: tuple[tuple[int, int, float], ...]


def profiles(path: Path) -> Sequence[ProfiledJob]:
    """The jobs of a file.

    Raises:
        InputError: It is no file of profiles.
    """
    try:
        with gzip.open(path, "rb") as lines:
            return [msgspec.json.decode(line, type=ProfiledJob) for line in lines]
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: no profiles of Shockwave's jobs: {error}") from error


class RoundJob:
    """A job while it runs in rounds.

    Attributes:
        total: Its steps at the present batch size.
        steps: Those that are done.
        rate: Steps a second at the present batch size.
        ran_s: For how long it held its GPUs, restarts left out.
        end_s: When it ended.
        rounds: The first round in which it was there, and the one in which it ended.
        failures: Rounds in a row in which it did nothing.
    """

    def __init__(self, profile: ProfiledJob) -> None:
        self.profile = profile
        self.batch_size, self.total, self.steps = profile.batch_size, profile.steps, 0
        self._plan = [size for size, epochs, _ in profile.batch_sizes for _ in range(epochs)]
        self._epoch_s = {size: seconds for size, _, seconds in profile.batch_sizes}
        self._durations = [self._epoch_s[size] for size in self._plan]
        self.alone_s = sum(self._durations)
        self.rate = self._rate(self.batch_size)
        self.ran_s, self.end_s, self.failures, self._flag = 0.0, 0.0, 0, 0
        self.rounds = [0, 0]
        self.notes: dict[str, Any] = {}

    @property
    def number(self) -> int:
        """Its place in the trace."""
        return self.profile.job

    @property
    def gpus(self) -> int:
        """Its gang's size."""
        return self.profile.gpus

    def observe(self) -> None:
        """At the end of a round: does the batch size change with the job's next micro-task?"""
        model, size, epoch, first = self.profile.model, self.batch_size, self._epoch(), self.profile.batch_size
        if self.profile.mode == "gns":
            ahead = [self._planned(epoch), self._planned(epoch + 1)]
            if max(ahead) > size and LARGEST[model] != size:
                self._flag = 1
        elif self.profile.mode == "accordion" and model not in NEVER_SCALED:
            critical = _is_critical(model, first, epoch)
            if size == first and not critical and LARGEST[model] != size:
                self._flag = 1
            elif size != first and critical and SMALLEST[model] != size:
                self._flag = -1

    def rescale(self) -> bool:
        """After a micro-task: let a change that was seen take effect."""
        flag, self._flag = self._flag, 0
        model, old = self.profile.model, self.batch_size
        is_fixed = model not in NEVER_SCALED and self.profile.batch_size == LARGEST[model]
        if not flag or is_fixed:
            return False
        new = 2 * old if self.profile.mode == "gns" else (LARGEST[model] if flag > 0 else self.profile.batch_size)
        if new not in self._epoch_s:
            return False
        of_old, of_new = self._epoch_steps(old), self._epoch_steps(new)
        epochs, total = math.ceil(self.total / of_old), math.ceil(self.total * old / new)
        self.total = total if math.ceil(total / of_new) == epochs else of_new * epochs
        self.steps = math.ceil(self.steps / of_old) * of_new
        self.batch_size, self.rate = new, self._rate(new)
        return True

    @property
    def seen_left_s(self) -> float:
        """What is left at the present batch size: all that a scheduler sees."""
        return max((self.total - self.steps) / self.rate, 1.0)

    @property
    def true_left_s(self) -> float:
        """What is left by the profile."""
        done = min(self.steps / self._epoch_steps(self.batch_size), float(len(self._plan)))
        whole = int(done)
        if whole >= len(self._plan):
            return 1.0
        return max(sum(self._durations[whole + 1 :]) + (1 - (done - whole)) * self._durations[whole], 1.0)

    def _epoch(self) -> int:
        return math.ceil(self.steps / self._epoch_steps(self.batch_size))

    def _planned(self, epoch: int) -> int:
        return self._plan[min(epoch, len(self._plan) - 1)]

    def _epoch_steps(self, size: int) -> int:
        return math.ceil(EXAMPLES[self.profile.model] / size)

    def _rate(self, size: int) -> float:
        return EXAMPLES[self.profile.model] / size / self._epoch_s[size]


def _is_critical(model: str, first: int, epoch: int) -> bool:
    """Whether Accordion keeps the small batch size in an epoch."""
    if model == "LM":
        return epoch < 10  # noqa: PLR2004 - Accordion's
    if model == "Recommendation":
        return epoch < {512: 30, 1024: 30, 2048: 40}.get(first, 10)
    if model == "ResNet-50":
        return epoch % 30 < 10  # noqa: PLR2004
    return epoch < (20 if first == 256 else 10) or 150 <= epoch < 160 or 250 <= epoch < 260  # noqa: PLR2004
