"""What tests ask of invariants: that one is broken, and where, or that it holds, and what it reports."""

from __future__ import annotations

from tests.harness.scenarios.log_builder import LogBuilder

from steepest.invariants import Checker, Status, check_with


def broken(checker: type[Checker], story: LogBuilder) -> tuple[tuple[int, ...], str]:
    """Evidence and message of a breach, which there must be."""
    (verdict,) = check_with([checker], story.records)
    assert verdict.status is Status.BROKEN, verdict
    assert verdict.checker == checker.name
    return verdict.evidence, verdict.message


def holds(checker: type[Checker], story: LogBuilder) -> str:
    """The message of a checker for a log in which its invariant must hold."""
    (verdict,) = check_with([checker], story.records)
    assert verdict.status is Status.HOLDS, verdict
    return verdict.message
