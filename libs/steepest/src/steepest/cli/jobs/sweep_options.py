"""A sweep's options: values for each of its trials, and the rungs where they are compared."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from steepest.cli.options import ARRAY_MOST, variable
from steepest.cli.printing.output import tell
from steepest.events.cluster import JobSpec, Rungs
from steepest.policies.submission import ARRAY_INDEX

if TYPE_CHECKING:
    import random

    from steepest.view.cluster_view import ClusterView


def jobs_of(
    name: str, spec: JobSpec, array: tuple[int, int | None] | None, params: Sequence[str], seed: int
) -> list[tuple[str, JobSpec]]:
    """The job, or those of an array, each with its index in its name and its environment, and with its values.

    Args:
        name: The job's, or the array's.
        spec: What all have in common.
        array: How many jobs, and how many at a time; None: as many as there are choices.
        params: See :func:`choices_of`.
        seed: Likewise.

    Raises:
        UsageError: As :func:`choices_of`, or there are rungs and no array.
    """
    if array is None and not params:
        if spec.rungs is not None:
            raise click.UsageError("--rungs compares the jobs of an array; add --array or --param")
        return [(name, spec)]
    count, most = array or (None, None)
    choices = (
        choices_of(params, spec.command, count, seed) if params else [TrialChoice({}, spec.command)] * (count or 0)
    )
    spec = msgspec.structs.replace(spec, array=name, array_most=most)
    return [
        (
            f"{name}-{index}",
            msgspec.structs.replace(
                spec,
                command=one.command,
                params={**spec.params, **one.params},
                env={**spec.env, ARRAY_INDEX: str(index)},
            ),
        )
        for index, one in enumerate(choices)
    ]


def of_a_new_sweep(view: ClusterView, jobs: list[tuple[str, JobSpec]]) -> list[tuple[str, JobSpec]]:
    """The jobs, in an array of another name if they are trials and those of a sweep of their name are over."""
    from steepest.read_models.changes.job_changes import free_name

    array = jobs[0][1].array
    if not array or jobs[0][1].rungs is None:
        return jobs

    def is_over(name: str) -> bool | None:
        found = [job.outcome is not None for job in view.jobs if job.spec.array == name]
        return all(found) if found else None

    free = free_name(array, is_over)
    if free != array:
        tell(f"a sweep named {array} is over already; this one is {free}", err=True)
    return [(name, msgspec.structs.replace(spec, array=free)) for name, spec in jobs]


class TrialChoice(NamedTuple):
    """Values of a sweep, by name, and the command with them."""

    params: dict[str, str]
    command: tuple[str, ...]


def choices_of(params: Sequence[str], command: tuple[str, ...], count: int | None, seed: int) -> list[TrialChoice]:
    """The settings of each job of a sweep, and its command with the value of K in place of ``{K}``.

    Args:
        params: Each K=V,... or a range. Of lists alone, every choice is one; the last K changes fastest.
        command: Program and arguments.
        count: How many jobs there are, drawn at random where one is a range; None: every choice.
        seed: Of the draws.

    Raises:
        UsageError: One is neither, the command has no place for it, ranges come without a count, lists make another number
            of jobs than that, or there are too many.
    """
    values = dict(pairs := [variable(one, "--param") for one in params])
    if len(values) < len(pairs) or not all(values):
        raise click.UsageError(f"--param {params[-1]}: write each name once, like lr=1e-3,3e-3")
    if unused := [name for name in values if not any(f"{{{name}}}" in word for word in command)]:
        raise click.UsageError(f"--param {unused[0]}: the command has no {{{unused[0]}}}")
    ranges = {name: one for name, text in values.items() if (one := Range.of(name, text)) is not None}
    lists = {name: text.split(",") for name, text in values.items() if name not in ranges}
    if not ranges:
        number = math.prod(map(len, lists.values()))
        if number > ARRAY_MOST or count not in {None, number}:
            raise click.UsageError(f"--param makes {number} jobs; an array has as many, and at most {ARRAY_MOST}")
        drawn = [dict(zip(lists, one, strict=True)) for one in itertools.product(*lists.values())]
    elif count is None:
        raise click.UsageError(f"--param {next(iter(ranges))}: say with --array how many values to draw from a range")
    else:
        import random

        chance = random.Random(f"sweep {seed}")  # noqa: S311 - no secret
        drawn = [
            {name: ranges[name].draw(chance) if name in ranges else chance.choice(lists[name]) for name in values}
            for _ in range(count)
        ]
    return [TrialChoice(one, tuple(_filled(word, one) for word in command)) for one in drawn]


def _filled(word: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{([^{}]*)\}", lambda found: values.get(found[1], found[0]), word)


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"(?P<log>log:)?(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})")
_LIKE_A_RANGE = re.compile(rf"log:.*|{_NUMBER}\.\.(?!/).*")

NARROW = 1e-3
"""Share of its ends below which the width of a range needs all digits of a value."""


class Range(NamedTuple):
    """``LOW..HIGH``: numbers in between, whole ones if both are; ``log:`` draws their logarithms evenly."""

    low: float
    high: float
    is_log: bool
    is_whole: bool

    @classmethod
    def of(cls, name: str, text: str) -> Range | None:
        """The range that a text is; None: it is none.

        Raises:
            UsageError: It is a wrong one.
        """
        if _LIKE_A_RANGE.fullmatch(text) is None:
            return None
        found = _RANGE.fullmatch(text)
        low, high = (float(found["low"]), float(found["high"])) if found else (math.nan, math.nan)
        is_log = text.startswith("log:")
        if found is None or not low < high or not math.isfinite(high - low) or (is_log and low <= 0):
            raise click.UsageError(f"--param {name}={text}: write a range like 0.1..0.9, 1..8 or log:1e-4..1e-1")
        return cls(low, high, is_log, all(re.fullmatch(r"-?\d{1,15}", found[end]) for end in ("low", "high")))

    def draw(self, chance: random.Random) -> str:
        """A value, as it is written in the command."""
        if self.is_whole and not self.is_log:
            return str(chance.randint(int(self.low), int(self.high)))
        value = (
            math.exp(chance.uniform(math.log(self.low), math.log(self.high)))
            if self.is_log
            else chance.uniform(self.low, self.high)
        )
        value = min(max(value, self.low), self.high)
        if self.is_whole:
            return str(round(value))
        is_narrow = self.high - self.low < NARROW * max(abs(self.low), abs(self.high))
        short = f"{value:.4g}"
        return repr(value) if is_narrow or not self.low <= float(short) <= self.high else short


def rungs_of(text: str) -> Rungs:
    """Where trials are compared, written as ``FIRST`` or ``FIRSTxFACTOR``.

    Raises:
        UsageError: It is not.
    """
    first, times, factor = text.partition("x")
    try:
        numbers = {"first": int(first), **({"factor": int(factor)} if times else {})}
        return msgspec.convert(numbers, Rungs)
    except ValueError:
        raise click.UsageError(f"--rungs {text}: write it like 100, or 100x4: at 100, 400, 1600, ...") from None
