"""How scalings of gangs are folded from the log, and what a report says of them."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.read_models.preemptions_and_scalings import Scalings
from steepest_lab.demo.gangs.report import gang_summary, locality, result, scaling_table

BECAUSE = c.Because(rule="a rule")


def planned(plan: str, job: str, sources: int, nodes: tuple[str, ...], room_for: str | None = None) -> c.ClusterEvent:
    """A plan to scale a gang."""
    return c.TransitionPlanned(
        plan=plan,
        job=job,
        incarnation=1,
        kind=c.Transition.SCALE,
        sources=("n1",) * sources,
        nodes=nodes,
        room_for=room_for,
        because=BECAUSE,
    )


def run() -> Scalings:
    """One that shrank, one that grew, one that failed, one under way, and a plan that is no scaling."""
    scalings = Scalings()
    for at_ms, event in (
        (1_000, planned("a", "one", 4, ("n1", "n1"), "urgent")),
        (
            2_000,
            c.TransitionFinished(plan="a", job="one", nodes=("n1", "n1"), took_ms=900, paused_ms=400, steps_lost=2),
        ),
        (3_000, planned("b", "two", 1, ("n1", "n2"))),
        (4_000, c.TransitionFinished(plan="b", job="two", nodes=("n1", "n2"), took_ms=800, paused_ms=300)),
        (5_000, planned("c", "one", 2, ("n1",))),
        (6_000, c.TransitionFailed(plan="c", job="one", code="gone", message="it is gone")),
        (7_000, planned("d", "one", 2, ("n1",))),
        (7_500, planned("e", "two", 2, ("n1",))),
        (8_000, c.PlanAbandoned(plan="e", job="two", code="cancelled")),
        (9_000, c.TransitionFinished(plan="other", job="one", nodes=("n1",))),
    ):
        scalings.note(event, at_ms)
    return scalings


def test_only_scalings_that_arrived_count() -> None:
    """Failed ones and those under way are shown, and not counted."""
    summary = gang_summary(run(), 500, 100, "")

    assert (summary.scale_ups, summary.scale_downs, summary.link_mbit) == (1, 1, 100)
    assert [(one.replicas, one.failed) for one in summary.scalings] == [
        ((4, 2), ""),
        ((1, 2), ""),
        ((2, 1), "it is gone"),
        ((2, 1), ""),
        ((2, 1), "abandoned"),
    ]
    first = summary.scalings[0]
    assert (first.at_s, first.took_s, first.paused_s, first.steps_lost) == (0.5, 0.9, 0.4, 2)
    assert first.room_for == "urgent"
    assert summary.scalings[2].took_s is None
    assert result(run()) == "gangs shrunk 1 time and grew 1 time"


def test_the_table_says_why() -> None:
    """Each row has the sizes, the nodes and for whom room was made."""
    _, rows = scaling_table(run(), 500)

    assert rows[0][1:5] == ["one", "4 → 2", "n1", "urgent starves"]
    assert rows[1][1:5] == ["two", "1 → 2", "n1+n2", "nothing waits for its room"]
    assert rows[3][-1] == ("broken off", "red")


def test_a_run_without_links_says_that_it_proves_nothing_of_locality() -> None:
    """With the reason why there are none."""
    assert "100 Mbit/s" in locality(100, "")
    assert locality(None, "not root").endswith("(not root): this run proves nothing of locality.")
