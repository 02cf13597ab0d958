"""``docs/plan-machine.md`` shows the machine that plans really walk through, and why plans are void, from the tables.

Draw them again with ``python tests/unit/view/test_plan_machine_doc.py``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from steepest.events.cluster import JobSpec
from steepest.events.parameters import MoveLimits
from steepest.view import plans
from steepest.view.movable import IMMOVABLE
from steepest.view.plans import AT, BEGINNINGS, FAILURES, MOVES, Meaning, Result, Stage
from steepest.view.refusal import Refusal
from steepest.view.state import Heading, Job, Plan, PlanKind
from steepest.view.validity import (
    MOVE,
    NO_ROOM,
    PLACEMENT,
    REARRANGEMENT,
    STALE_MOVE,
    SUSPENSION,
    TRANSITION,
    NoRoom,
    Void,
)

PAGE = Path(__file__).parents[3] / "docs" / "plan-machine.md"
BLOCK = re.compile(r"(?<=<!-- drawn -->\n).*(?=<!-- end -->)", re.DOTALL)
REFUSALS = re.compile(r"(?<=<!-- refusals -->\n).*(?=<!-- end of refusals -->)", re.DOTALL)
ASKED: dict[str, Iterable[Refusal]] = {
    "placement": (*PLACEMENT, Void.NO_ROOM_COMING, NoRoom.UNKNOWN_NODE, *NO_ROOM),
    "migration": (*STALE_MOVE, *IMMOVABLE, *MOVE, NoRoom.UNKNOWN_NODE, *NO_ROOM),
    "suspension": (*STALE_MOVE, *IMMOVABLE, *TRANSITION, *SUSPENSION),
    "scale, move": (*STALE_MOVE, *IMMOVABLE, *TRANSITION, *REARRANGEMENT, NoRoom.UNKNOWN_NODE, *NO_ROOM),
}
SPECIAL = {Result.DONE_TARGET_GONE: Result.DONE, Result.FAILED_STOPPED: Result.FAILED}
"""Results that need no word of their own where their plain form leads to the same stage."""


def edges(kind: PlanKind, first: Stage) -> Iterator[tuple[str, str, str]]:
    """All moves from a plan's beginning on, in the order in which they are met."""
    yield "[*]", "", first
    todo, seen = deque([first]), {first: None}
    while todo:
        here = todo.popleft()
        if AT[here][1] is None:
            yield here, "", "[*]"
            continue
        after: dict[Stage, list[Result]] = {}
        for result, stage in MOVES[kind][here].items():
            after.setdefault(stage, []).append(result)
        for stage, results in after.items():
            yield here, " or ".join(result for result in results if SPECIAL.get(result) not in results), stage
        todo.extend(stage for stage in after if stage not in seen)
        seen.update(dict.fromkeys(after))


def draw() -> str:
    """One diagram for the ways to begin that lead through the same steps."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for (kind, mode), first in BEGINNINGS.items():
        lines = tuple(f"    {a} --> {b}" + (f": {word}" if word else "") for a, word, b in edges(kind, first))
        alike.setdefault(lines, []).append(f"{kind}, {mode}" if mode else str(kind))
    parts = [
        "\n".join((f"### {'; '.join(titles)}", "", "```mermaid", "stateDiagram-v2", *lines, "```", ""))
        for lines, titles in alike.items()
    ]
    return "\n" + "\n".join(parts) + "\n"


def list_refusals() -> str:
    """What makes each kind of plan void, with the place of each reason in the order in which they are checked."""
    places: dict[tuple[str, str], dict[str, int]] = {}
    for kind, refusals in ASKED.items():
        for place, refusal in enumerate(refusals, 1):
            places.setdefault((str(refusal), plain(refusal.sentence)), {})[kind] = place
    lines = [f"| code | sentence | {' | '.join(ASKED)} |", "|---|---|" + "---:|" * len(ASKED)]
    lines += [
        f"| `{code}` | {sentence} | {' | '.join(str(of.get(kind, '')) for kind in ASKED)} |"
        for (code, sentence), of in places.items()
    ]
    return "\n".join(("", *lines, "", ""))


def plain(sentence: str) -> str:
    """A template for people: the facts that it names stand as `…`."""
    return re.sub(r"\{[^}]*\}", "…", sentence)


def written() -> str:
    """The page as it should be."""
    return REFUSALS.sub(lambda _: list_refusals(), BLOCK.sub(lambda _: draw(), PAGE.read_text()))


def test_the_page_shows_the_machine() -> None:
    """Its diagrams and its list of refusals are those of the tables now."""
    page = PAGE.read_text()
    assert BLOCK.search(page)
    assert REFUSALS.search(page)
    assert page == written(), f"draw it again: python {Path(__file__).name}"


def test_codes_of_refusals_are_unique_within_what_is_asked() -> None:
    """A metric's label says which reason it was."""
    for refusals in ASKED.values():
        codes = [str(refusal) for refusal in refusals]
        assert len(set(codes)) == len(codes)


def test_every_stage_has_every_result() -> None:
    """No outcome that a log may hold is without a move, and each leads to a stage of the same kind of plan."""
    for kind, moves in MOVES.items():
        for stage, after in moves.items():
            assert list(after) == list(Result), (kind, stage)
            assert all(next_stage in moves or AT[next_stage][1] is None for next_stage in after.values())


def test_every_kind_begins_at_a_stage_that_it_has() -> None:
    """A migration begins by how its job saves; one that cannot save begins nowhere."""
    assert {kind for kind, _ in BEGINNINGS} == set(PlanKind)
    assert all(first in MOVES[kind] for (kind, _), first in BEGINNINGS.items())


@pytest.mark.parametrize("code", [*FAILURES, "refused"])
def test_a_cancel_is_given_up_only_where_its_job_does_not_run(code: str) -> None:
    """Any other failure is retried without a limit."""
    spec = JobSpec(command=("x",))
    job = Job(name="job", request="", spec=spec, submitted_ms=0, submitted_offset=0, submitted_counted_ms=0)
    plan = Plan(id="p", kind=PlanKind.CANCEL, job="job", incarnation=1, made_ms=0, targets=("w1",))
    plans.begin_walk(plan, job.mode)

    for _ in range(5):
        if plan.step is not None:
            plans.step_failed(plan, job, definite=True, code=code, message="", now=0, limits=MoveLimits(tries=1))

    is_given_up = plan.heading is Heading.FAILED
    assert is_given_up == (plans.meaning_of(code) is Meaning.NOT_RUNNING)


def test_only_a_stopped_job_turns_back() -> None:
    """Before STOP is done there is nothing to go back from."""
    moves = MOVES[PlanKind.MIGRATE].items()
    back = {(stage, result) for stage, after in moves for result, to in after.items() if to is Stage.START_BACK}
    assert {found for found in back if found[0] is not Stage.START_BACK} == {
        (Stage.STOP, Result.DONE_TARGET_GONE),
        (Stage.START, Result.FAILED_STOPPED),
        (Stage.VERIFY, Result.FAILED_STOPPED),
    }


if __name__ == "__main__":
    PAGE.write_text(written())
