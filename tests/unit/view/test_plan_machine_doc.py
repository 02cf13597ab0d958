"""``docs/plan-machine.md`` shows the machine that plans really walk through: its diagrams are drawn by walking it.

Draw them anew with ``python tests/unit/view/test_plan_machine_doc.py``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from steepest.events.cluster import JobSpec, Step
from steepest.events.common import CheckpointMode
from steepest.events.parameters import MoveLimits
from steepest.view import plans
from steepest.view.state import Heading, Job, Plan, PlanKind

PAGE = Path(__file__).parents[3] / "docs" / "plan-machine.md"
BLOCK = re.compile(r"(?<=<!-- drawn -->\n).*(?=<!-- end -->)", re.DOTALL)
LIMITS = MoveLimits(tries=1)
Edge = tuple[str, str, str]


def walks() -> Iterator[tuple[str, Plan, Job]]:
    """Every way in which a plan can begin: a title, the plan, and the job it is about."""
    for kind, heading, mode in plans.STEPS:
        if heading is Heading.BACK:
            continue  # no plan begins so: a failure leads there
        job = Job(
            name="job",
            request="",
            spec=JobSpec(command=("x",), checkpoint_mode=mode or CheckpointMode.ON_REQUEST),
            submitted_ms=0,
            submitted_offset=0,
            submitted_counted_ms=0,
        )
        plan = Plan(
            id="plan", kind=kind, job="job", incarnation=1, made_ms=0, made_offset=0, sources=("w1",), targets=("w2",)
        )
        plans.begin_walk(plan, job.mode)
        yield str(kind) + (f", {mode}" if mode else ""), plan, job


def moves(plan: Plan, job: Job) -> Iterator[tuple[str, Plan]]:
    """What may become of the step that is due, and the plan after it."""
    done = copy(plan)
    plans.step_done(done)
    yield "done", done
    for alive in (True, False) if plan.step is Step.VERIFY else (plan.step in {Step.CHECKPOINT, Step.STOP},):
        failed = copy(plan)
        job.alive = alive
        plans.step_failed(failed, job, definite=True, code="refused", message="", now=0, limits=LIMITS)
        word = {True: "failed, still running", False: "failed, ended"}[alive] if plan.step is Step.VERIFY else "failed"
        yield word, failed
    unclear = copy(plan)
    plans.step_failed(unclear, job, definite=False, code="uncertain", message="", now=0, limits=LIMITS)
    yield "unclear", unclear


def copy(plan: Plan) -> Plan:
    """The same plan, to be moved on by itself."""
    return msgspec.convert(msgspec.to_builtins(plan), Plan)


def spell(plan: Plan) -> str:
    """Where a plan stands."""
    if plan.step is None:
        return str(plan.heading)
    return f"{plan.step}_back" if plan.heading is Heading.BACK else str(plan.step)


def edges(plan: Plan, job: Job) -> list[Edge]:
    """All moves from a plan's beginning on, each once, in the order in which they are met."""
    found: dict[Edge, None] = {("[*]", "", spell(plan)): None}
    todo, seen = deque([plan]), {spell(plan)}
    while todo:
        here = todo.popleft()
        if here.step is None:
            found[spell(here), "", "[*]"] = None
            continue
        for word, after in moves(here, job):
            found[spell(here), word, spell(after)] = None
            if spell(after) not in seen:
                seen.add(spell(after))
                todo.append(after)
    return list(found)


def draw() -> str:
    """One diagram for each way to begin."""
    parts = []
    for title, plan, job in walks():
        lines = [f"    {a} --> {b}" + (f": {word}" if word else "") for a, word, b in edges(plan, job)]
        parts.append("\n".join((f"### {title}", "", "```mermaid", "stateDiagram-v2", *lines, "```", "")))
    return "\n" + "\n".join(parts) + "\n"


def test_the_page_shows_the_machine() -> None:
    """The diagrams in the page are those drawn by walking it now."""
    page = BLOCK.search(PAGE.read_text())
    assert page is not None
    assert page.group() == draw(), f"draw it anew: python {Path(__file__).name}"


def test_a_cancel_never_fails() -> None:
    """Its only way is to be done; what fails is tried again."""
    (cancel,) = (edges(plan, job) for _, plan, job in walks() if plan.kind is PlanKind.CANCEL)
    assert {after for _, _, after in cancel} == {"stop", "done", "[*]"}


def test_only_a_stopped_job_turns_back() -> None:
    """Before STOP is done there is nothing to go back from."""
    back = [before for _, plan, job in walks() for before, _, after in edges(plan, job) if after == "start_back"]
    assert set(back) == {"start", "verify", "start_back"}


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: draw(), PAGE.read_text()))
