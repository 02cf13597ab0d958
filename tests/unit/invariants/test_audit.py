"""What an audit makes of logs that prove nothing, and of checkers that fail."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from tests.harness.scenarios.log_builder import LogBuilder

from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.registry import READS
from steepest.invariants import ALL, Audit, Checker, Status, check, check_with
from steepest.invariants.checkers.accounting import Accounting
from steepest.invariants.checkers.one_place import OnePlace
from steepest.invariants.checkers.parameters_in_force import ParametersInForce
from steepest.invariants.checkers.step_rules import Steps

ROOT = Path(__file__).parents[3]


def story() -> LogBuilder:
    """A job that is moved."""
    return LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").moved("a", "n1", "n2")


def unsound() -> LogBuilder:
    """A job in two places, in the middle of a log that goes on."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").begun("ghost", c.Step.START, "a", 2, "n2")
    return story.add(c.Tick(counted_ms=2_000), c.Tick(counted_ms=3_000))


class Fails(Checker):
    """Nothing holds: this checker is wrong."""

    name = "fails"

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """Fail at the third record, after finding a breach at the second where the log is not opened there."""
        if received.offset == 1 and not isinstance(received.event, c.PoolConfigured):
            self.breach("it was not configured", received.offset)
        if received.offset == 2:
            raise KeyError("third")


def test_an_error_in_a_checker_is_unknown() -> None:
    """It proves nothing, least of all that the invariant holds; the other checkers go on."""
    (failed, sound) = check_with([Fails, OnePlace], story().records)
    assert failed.status is Status.UNKNOWN
    assert failed.message == "the checker failed at record 2: KeyError('third')"
    assert sound.status is Status.HOLDS


def test_an_error_in_the_shared_folds_leaves_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every checker looks at is wrong from there on; what one had proven before is proven."""
    monkeypatch.setattr(Steps, "feed", _fails_at_the_third)
    ghost = c.JobEnded(job="ghost", outcome=c.Outcome.FINISHED)
    records = LogBuilder().add(c.LogOpened(epoch="e"), ghost, c.JobCancelRequested(job="a", request="r")).records
    (proven, unknown) = check_with([Accounting, OnePlace], records)
    assert (proven.status, proven.evidence) == (Status.BROKEN, (1,))
    assert (unknown.status, unknown.message) == (
        Status.UNKNOWN,
        "the shared folds failed at record 2: KeyError('third')",
    )


def _fails_at_the_third(_: Steps, received: Received[c.ClusterEvent]) -> bool:
    if received.offset == 2:
        raise KeyError("third")
    return True


def test_a_breach_that_was_found_before_an_error_stays_one() -> None:
    """What was proven is proven."""
    records = LogBuilder().add(c.LogOpened(epoch="e"), c.Tick(counted_ms=1), c.Tick(counted_ms=2)).records
    (failed,) = check_with([Fails], records)
    assert (failed.status, failed.evidence) == (Status.BROKEN, (1,))


def test_a_log_that_does_not_begin_at_its_beginning_proves_nothing() -> None:
    """What its first records refer to is not known."""
    verdicts = check(story().records[3:])
    assert {verdict.status for verdict in verdicts} == {Status.UNKNOWN}
    assert {verdict.message for verdict in verdicts} == {"the records 0 to 2 are missing"}


def test_a_log_without_records_proves_nothing() -> None:
    """There is nothing of which anything could hold."""
    assert {verdict.status for verdict in check([])} == {Status.UNKNOWN}


def test_a_hole_leaves_everything_behind_it_unknown() -> None:
    """A breach before the hole is one; a breach behind it may be the hole's doing."""
    records = unsound().records
    (before,) = check_with([OnePlace], [*records[:-2], records[-1]])
    assert before.status is Status.BROKEN
    at = len(records) - 3
    (behind,) = check_with([OnePlace], [*records[: at - 1], *records[at:]])
    assert behind.status is Status.UNKNOWN
    assert behind.message == f"the records {at - 1} to {at - 1} are missing"


def test_records_out_of_order_are_a_cut() -> None:
    """A partition has one order; what has another one is no partition."""
    records = story().records
    (verdict,) = check_with([OnePlace], [*records[:5], records[3]])
    assert (verdict.status, verdict.message) == (Status.UNKNOWN, "record 3 comes after record 4")


def test_a_record_that_nobody_can_read_is_no_hole() -> None:
    """Every reader passes over it, the running system too, so what stands around it proves what it proves."""
    audit = Audit([OnePlace])
    for received in unsound().records:
        if isinstance(received.event, c.PoolConfigured):
            audit.skip(received.offset)
        else:
            audit.feed(received)
    (verdict,) = audit.verdicts()
    assert verdict.status is Status.BROKEN


@pytest.mark.parametrize("newer", [c.PoolConfigured(reads=READS + 1), c.PoolConfigured(flags=(999,))])
def test_a_log_that_asks_for_a_newer_reader_proves_nothing_from_there_on(newer: c.PoolConfigured) -> None:
    """Its events may mean what this reader does not know; what stands before is judged."""
    (after,) = check_with([OnePlace], [*LogBuilder().add(newer).records, *moved_on(unsound())])
    assert after.status is Status.UNKNOWN
    assert "newer reader" in after.message
    (before,) = check_with([OnePlace], unsound().add(newer).records)
    assert before.status is Status.BROKEN


def moved_on(story: LogBuilder) -> list[Received[c.ClusterEvent]]:
    """The same records, one offset later."""
    return [msgspec.structs.replace(received, offset=received.offset + 1) for received in story.records]


def test_records_of_two_pools_are_not_mixed() -> None:
    """Each pool has its own jobs and its own order."""
    with pytest.raises(InputError, match="cluster/1 among those of cluster/0"):
        check([*story().records, *LogBuilder(partition=1).opened().records])


def test_a_message_lists_a_few_breaches_and_the_evidence_all() -> None:
    """A log that is broken everywhere must not fill the screen."""
    story = LogBuilder().opened(n1=1000)
    for number in range(8):
        story.add(c.JobEnded(job=f"ghost-{number}", outcome=c.Outcome.FINISHED))
    audit = Audit([Accounting])
    for received in story.records:
        audit.feed(received)
    (verdict,) = audit.verdicts()
    assert len(verdict.evidence) == len(audit.breaches("accounting")) == 8
    assert verdict.message.endswith("and 3 more")


def test_a_verdict_is_data() -> None:
    """Programs read verdicts as JSON."""
    (verdict,) = check_with([OnePlace], unsound().records)
    decoded = msgspec.json.decode(msgspec.json.encode(verdict))
    assert decoded["checker"] == "one-place"
    assert decoded["status"] == "broken"


def test_every_checker_states_its_model() -> None:
    """A breach is read by people: each checker has a name of its own and says what the log proves, and how."""
    names = [checker.name for checker in ALL]
    assert len(set(names)) == len(names)
    for checker in ALL:
        assert checker.__doc__ is not None
        assert len(checker.__doc__.split(".")) > 3


def test_the_documentation_has_every_invariant() -> None:
    """docs/invariants.md states each checker's invariant as the first paragraph of its docstring does."""
    page = (ROOT / "docs" / "invariants.md").read_text().partition("## The checkers")[2]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, flags=re.MULTILINE))
    every: tuple[type[Checker], ...] = (*ALL, ParametersInForce)
    assert list(rows) == [checker.name for checker in every]
    for checker in every:
        stated = (checker.__doc__ or "").partition("\n\n")[0].replace("``", "`")
        assert rows[checker.name].split() == stated.split()
