"""What tests ask of invariants: that one is broken, and where, or that it holds, and what it tells."""

from __future__ import annotations

from steepest.invariants import Checker, Status, check_with
from steepest.testing.scenarios.log_builder import LogBuilder


def broken(checker: type[Checker], story: LogBuilder) -> tuple[tuple[int, ...], str]:
    """Evidence and message of a breach, which there must be."""
    (verdict,) = check_with([checker], story.records)
    assert verdict.status is Status.BROKEN, verdict
    assert verdict.checker == checker.name
    return verdict.evidence, verdict.message


def told(checker: type[Checker], story: LogBuilder) -> str:
    """What a checker tells of a log in which its invariant holds, which it must."""
    (verdict,) = check_with([checker], story.records)
    assert verdict.status is Status.HOLDS, verdict
    return verdict.message
