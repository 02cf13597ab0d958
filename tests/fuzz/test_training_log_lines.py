"""A short run of the fuzzer, and the rule that keeps every pattern linear."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import steepest.training_logs

from .training_log_lines import fuzz

# The standard library's own parser of patterns, of which type checkers know differing parts.
_constants: Any = importlib.import_module("re._constants")
_parser: Any = importlib.import_module("re._parser")


def test_no_line_makes_the_reader_fail() -> None:
    """Mutated lines of every format, damaged in every way, raise nothing."""
    assert sum(1 for _ in fuzz(10_000, seed=7)) == 10_000


def patterns() -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """Every compiled pattern of the package, by module and name."""
    for module in pkgutil.walk_packages(steepest.training_logs.__path__, "steepest.training_logs."):
        for name, value in vars(importlib.import_module(module.name)).items():
            found = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            firsts = (one[0] if isinstance(one, tuple) and one else one for one in found)
            yield from ((f"{module.name}.{name}", one) for one in firsts if isinstance(one, re.Pattern))


def repeats(tree: Any) -> Iterator[int]:
    """The upper bound of every repetition in a parsed pattern."""
    for operation, argument in tree:
        if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            yield argument[1]
            yield from repeats(argument[2])
        elif operation is _constants.SUBPATTERN:
            yield from repeats(argument[3])
        elif operation is _constants.BRANCH:
            for branch in argument[1]:
                yield from repeats(branch)
        elif operation in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from repeats(argument[1])
        elif operation is _constants.ATOMIC_GROUP:
            yield from repeats(argument)


@pytest.mark.parametrize(
    ("name", "pattern"), list(patterns()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_repetition_has_a_bound(name: str, pattern: re.Pattern[bytes]) -> None:
    """No pattern repeats without end, so that a search costs at most a constant for each byte of a line."""
    assert all(bound is not _constants.MAXREPEAT for bound in repeats(_parser.parse(pattern.pattern))), name


def test_the_rule_sees_what_it_forbids() -> None:
    """A pattern with an endless repetition, however deep, would be found."""
    assert any(bound is _constants.MAXREPEAT for bound in repeats(_parser.parse(rb"a(?:b|(?>c(?=d*)))?")))
