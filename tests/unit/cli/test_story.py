"""A job's story: which events belong to it, with which reasons, and what it says of now."""

from __future__ import annotations

from tests.harness.scenarios.log_builder import LogBuilder

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import FlowConParameters, PoolParameters, SteepestParameters
from steepest.read_models.job_timeline import JobTimeline, TimelineCollector
from steepest.view.cluster_view import ClusterView

SPEC = c.JobSpec(command=("train",), requests=Resources(200))
SPREAD = c.Because(rule="spread", nodes=(c.NodeScore("n1", 2.0, 100, 1),))


def timeline(story: LogBuilder, job: str = "a") -> JobTimeline:
    """The story of a job in a log made by hand."""
    view, teller = ClusterView(), TimelineCollector(job)
    for received in story.records:
        teller.hear(view, received, accepted=view.fold(received))
    return teller.timeline(view)


def begun() -> LogBuilder:
    """A job is admitted on a pool with one node."""
    return LogBuilder().add(
        c.LogOpened(epoch="e"),
        c.NodeJoined(node="n1", capacity=Resources(500)),
        c.JobSubmitted(job="a", request="r", spec=SPEC),
        c.JobAdmitted(job="a", request="r"),
    )


def placed() -> LogBuilder:
    """It runs."""
    return begun().add(
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=SPREAD),
        c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1"),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1"),
    )


def test_a_decision_is_shown_with_its_inputs() -> None:
    """The nodes that were considered, with score, use and jobs, stand below the decision."""
    plan = next(entry for entry in timeline(placed()).entries if entry.type == "PlacementPlanned")

    assert plan.sentence == "a: start planned on n1 (spread)"
    assert plan.details == ["considered n1 (score 2, 1 job, 100m CPU used)"]
    assert plan.because == SPREAD


def test_a_void_plan_is_told_with_its_reason() -> None:
    """A plan that came too late is part of the story, and says why it had no effect."""
    late = c.PlacementPlanned(plan="late", job="a", incarnation=0, nodes=("n1",), because=SPREAD)

    entry = timeline(placed().add(late)).entries[-1]

    assert entry.refusal == "not-waiting"
    assert entry.void == "the job does not wait for a place"
    assert entry.details[0] == f"void (not-waiting): {entry.void}"


def test_what_changes_nothing_is_no_part_of_the_story() -> None:
    """Measurements, outcomes that came twice, other jobs, and another job that wanted the same name are left out."""
    before = timeline(placed())
    story = placed().add(
        c.Tick(counted_ms=1_000),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1"),
        c.JobSubmitted(job="b", request="rb", spec=SPEC),
        c.JobSubmitted(job="a", request="other", spec=SPEC),
        c.JobRejected(job="a", request="other", reason="a job named a is there already"),
    )

    assert timeline(story).entries == before.entries


def test_requests_that_come_again_are_counted() -> None:
    """A converged job asks at every interval; one line says how often."""
    asking = [c.ReallocationRequested(job="a", growth=0.001, interval=number) for number in (5, 6, 7)]

    last = timeline(placed().add(*asking)).entries[-1]

    assert (last.type, last.again, last.details) == ("ReallocationRequested", 2, ["requested again 2 times"])


def test_a_job_that_waits_says_for_what() -> None:
    """For its admission, for room on each node with what is missing, or for the end of a hold."""
    unread = LogBuilder().add(c.LogOpened(epoch="e"), c.JobSubmitted(job="a", request="r", spec=SPEC))
    large = c.JobSpec(command=("train",), requests=Resources(400))
    crowded = placed().add(
        c.JobSubmitted(job="b", request="rb", spec=large),
        c.JobAdmitted(job="b", request="rb"),
    )

    assert timeline(unread).now.startswith("a is queued: it is not admitted yet")
    assert timeline(crowded, "b").now == (
        "b is queued: node n1 has not enough free: 300m CPU, and 400m CPU is asked for"
    )


def test_a_failed_job_that_is_held_back_says_until_when() -> None:
    """The hold is in counted time, and the reason is that of its stop."""
    story = placed().add(
        c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=1),
        c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=4_000, reason="it exited with status 1"),
    )

    assert timeline(story).now.startswith("a is queued: its next try is in 4.0 s")


def test_a_step_under_way_is_told() -> None:
    """While a plan is in flight, now is its step."""
    story = begun().add(
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=SPREAD),
        c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1"),
    )

    assert timeline(story).now == "a is being placed on n1: step “start” is under way"


def test_a_job_that_stays_says_why_it_is_not_moved() -> None:
    """It cannot be saved; it still grows; or the guard keeps it, because no other job would gain by its leaving."""
    saves = c.CheckpointModeDeclared(job="a", incarnation=1, node="n1", mode=CheckpointMode.ON_REQUEST)
    converged = c.CategoryChanged(job="a", before=c.Category.WATCHED, after=c.Category.CONVERGED, growth=0.001)

    assert timeline(placed()).now.endswith("it is not moved: it cannot be checkpointed")
    assert timeline(placed().add(saves)).now.endswith("jobs are moved once they have converged")
    assert timeline(placed().add(saves, converged)).now.endswith("(the guard)")


def test_a_job_on_a_lost_node_says_what_frees_it() -> None:
    """While it runs there as well as while it waits to be cancelled; not once the node is back, or the job is over."""
    hint = "; n1 is lost: if it never returns, `steepest nodes gone n1` frees its jobs"
    lost = c.NodeLost(node="n1", silent_ms=15_000)
    back = c.NodeUsage(node="n1", used=Resources(0), jobs={})
    ended = (
        c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0),
        c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0),
    )

    assert timeline(placed().add(lost)).now.endswith(hint)
    assert timeline(placed().add(lost, c.JobCancelRequested(job="a", request="r2"))).now.endswith(hint)
    assert "lost" not in timeline(placed().add(lost, back)).now
    assert timeline(placed().add(lost, *ended)).now == "a has ended: finished"


def test_the_end_is_the_end() -> None:
    """A job that is over waits for nothing."""
    story = placed().add(
        c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=3),
        c.JobEnded(job="a", outcome=c.Outcome.FAILED, exit_status=3, reason="it exited with status 3"),
    )

    assert timeline(story).now == "a has ended: failed: it exited with status 3"


def limited() -> LogBuilder:
    """FlowCon caps it: it is planned, refused, planned again and set; a plan that changes nothing for it comes between."""
    seen = (c.GrowthSeen("a", c.GrowthList.COMPLETING, 0.004, 0.001, 0.25), c.GrowthSeen("b", c.GrowthList.NEW))
    because = c.LimitsBecause(rule="Algorithm 1", jobs=seen, total=0.004, beta=1.5, floor=1 / 3, interval_ms=30_000)

    def plan(name: str, cpu_m: int | None, job: str = "a") -> c.LimitsPlanned:
        limit = c.JobLimit(job, 1, c.GrowthList.COMPLETING, cpu_m)
        return c.LimitsPlanned(plan=name, node="n1", limits=(limit,), because=because)

    no = c.LimitsRefused(plan="l1", node="n1", job="a", incarnation=1, code="busy", definite=True, message="later")
    yes = c.LimitsApplied(plan="l3", node="n1", job="a", incarnation=1, cpu_m=166)
    return placed().add(plan("l1", 166), no, plan("l2", 99, job="b"), plan("l3", 166), yes)


def test_limits_are_shown_with_the_inputs_of_their_plan() -> None:
    """The plan is for a whole node; the job's story has its own limit, and how every job there was seen."""
    entries = {entry.type: entry for entry in timeline(limited()).entries}
    plan = entries["LimitsPlanned"]

    assert plan.sentence == "a: 166m CPU planned on n1; now in CL (Algorithm 1)"
    assert plan.details == [
        "considered a (CL, growth efficiency 0.004, 25.0% of the node used)",
        "considered b (NL, nothing measured yet)",
        "ΣG = 0.004, β = 1.5: no limit below 33.3% of the node",
    ]
    assert entries["LimitsRefused"].sentence.endswith("(busy); the old one stays: later")
    assert entries["LimitsApplied"].sentence == "a now has 166m CPU on n1"


def test_limits_and_moves_of_steepest_are_explained_by_fair_ends() -> None:
    """How the job stands against fair sharing, and what else could have moved."""
    story = placed()
    at_ms = 1_000 * story.end
    known = c.FairStanding("a", 200, 800, 100, 50_000, at_ms + 60_000, at_ms + 62_000, 0.02)
    because = c.LimitsBecause(rule="by worth", standing=(known, c.FairStanding("b", 300, 400)))
    limits = c.LimitsPlanned(plan="l", node="n1", limits=(c.JobLimit("a", 1, cpu_m=200),), because=because)
    move = c.MigrationPlanned(
        plan="m",
        job="a",
        incarnation=1,
        source="n1",
        target="n2",
        kind=c.MoveKind.STEEPEST,
        because=c.Because(rule="room", gain_ms=30_000, move_ms=9_000, alternatives=(c.MoveOption("b", "n2", 20_000),)),
    )
    entries = {entry.type: entry for entry in timeline(story.add(limits, move)).entries}

    assert entries["LimitsPlanned"].sentence == "a: 200m CPU planned on n1 (by worth)"
    assert entries["LimitsPlanned"].details == [
        (
            "considered a (200m of the 800m CPU that it can use, of which 100m cannot wait; 50 s of CPU left; "
            "ends under fair sharing in 60 s; is due in 62 s; index 20 for 1000 s of CPU)"
        ),
        "considered b (300m of the 400m CPU that it can use; it is unknown how much is left)",
    ]
    assert [one.split(" gained")[0] for one in entries["MigrationPlanned"].details][-3:] == [
        "30 s",
        "the move is predicted to take 9.0 s",
        "or b to n2: 20 s",
    ]


def divided(*standing: c.FairStanding) -> LogBuilder:
    """A running job under the policy steepest, whose node is divided among these; without any: no plan was made."""
    parameters = PoolParameters(steepest=SteepestParameters(on=True))
    story = placed().add(c.PoolConfigured(parameters=parameters))
    if not standing:
        return story
    because = c.LimitsBecause(rule="by worth", standing=standing)
    return story.add(c.LimitsPlanned(plan="l", node="n1", limits=(c.JobLimit("a", 1, cpu_m=200),), because=because))


def test_a_job_under_steepest_runs_where_it_does_by_its_fair_end() -> None:
    """Algorithm 4's reasons are no reasons there."""
    at_ms = 1_000 * (placed().end + 1)
    known = c.FairStanding("a", 200, 800, 100, 50_000, at_ms + 60_000, at_ms + 62_000, 0.02)

    assert (
        "; it ends under fair sharing in 60 s and is due in 62 s; 100m of the 800m CPU that it can use cannot wait"
        in (timeline(divided(known)).now)
    )
    over = c.FairStanding("a", 200, 800, 0, 50_000, at_ms - 15_000, at_ms - 13_000, 0.02)
    assert (
        "; it had ended under fair sharing 15 s ago and was due 13 s ago; all of the 800m CPU that it can use may wait"
        in timeline(divided(over)).now
    )
    done = divided(c.FairStanding("a", 200, 800))
    done.add(
        c.NodeUsage(node="n1", used=Resources(), progress=(c.ReplicaProgress(job="a", incarnation=1, step=9, total=9),))
    )
    assert "; all of its steps are done" in timeline(done).now
    assert "; it is unknown how much is left of it, so it keeps up with what fair sharing would give it" in (
        timeline(divided(c.FairStanding("a", 200, 800))).now
    )
    assert "; its node has had enough CPU for all of its jobs since it began" in timeline(divided()).now
    assert "moves are switched off" not in timeline(divided(known)).now


def gang_on(*nodes: str) -> LogBuilder:
    """A gang of two under the policy steepest, each of which has a limit, and a plan of its first node."""
    parameters = PoolParameters(steepest=SteepestParameters(on=True))
    spec = c.JobSpec(command=("train",), replicas=2, requests=Resources(200))
    standing = c.FairStanding("a", 200, 800, 100, 50_000, 90_000, 92_000, 0.02)
    if len(set(nodes)) > 1:
        standing = c.FairStanding("a", 200, 800)
    because = c.LimitsBecause(rule="by worth", standing=(standing,))
    return LogBuilder().add(
        c.PoolConfigured(parameters=parameters),
        *(c.NodeJoined(node=node, capacity=Resources(500)) for node in dict.fromkeys(nodes)),
        c.JobSubmitted(job="a", request="r", spec=spec),
        c.JobAdmitted(job="a", request="r"),
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=nodes, because=SPREAD),
        c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node=nodes[0], nodes=nodes),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node=nodes[0], nodes=nodes),
        c.LimitsPlanned(plan="l", node=nodes[0], limits=(c.JobLimit("a", 1, cpu_m=200),), because=because),
        c.LimitsApplied(plan="l", node=nodes[0], job="a", incarnation=1, cpu_m=200),
    )


def test_a_gang_under_steepest_runs_where_it_does_by_its_fair_end() -> None:
    """On one node; on several it keeps up."""
    on_one, on_two = timeline(gang_on("n1", "n1")).now, timeline(gang_on("n1", "n2")).now

    assert "200m CPU each" in on_one
    assert "it ends under fair sharing in" in on_one
    assert "it is on several nodes, so that it keeps up with what fair sharing would give it" in on_two


def test_a_plan_of_a_crowded_node_shows_the_job_itself_and_those_that_are_worth_most() -> None:
    """A hundred lines about others explain nothing."""
    others = [c.FairStanding(f"o{number}", 10, 20, index=number / 10) for number in range(9)]
    details = timeline(divided(*others, c.FairStanding("a", 10, 20, index=0.0))).entries[-1].details

    assert [line.split()[1] for line in details[:-1]] == ["a", "o8", "o7", "o6", "o5"]
    assert details[-1] == "and 5 other jobs there"


def test_a_plan_that_changes_nothing_for_a_job_is_not_in_its_story() -> None:
    """Nor is one that does not name it."""
    types = [entry.type for entry in timeline(limited()).entries]

    assert types.count("LimitsPlanned") == 1


def test_now_says_what_limit_is_in_force() -> None:
    """And what is asked for, or was refused."""
    assert "runs on n1 with 166m CPU (" in timeline(limited()).now
    refused = limited()
    del refused.records[-3:]
    assert "with no limit (166m CPU was refused: busy: later)" in timeline(refused).now
    del refused.records[-1:]
    assert "with no limit (166m CPU is requested)" in timeline(refused).now


def test_a_converged_job_that_flowcon_keeps_says_so() -> None:
    """Where SpeCon moves jobs too, its requests wait until FlowCon lists it as completing."""
    story = placed().add(
        c.PoolConfigured(parameters=PoolParameters(flowcon=FlowConParameters(on=True))),
        c.CheckpointModeDeclared(job="a", incarnation=1, node="n1", mode=CheckpointMode.ON_REQUEST),
        c.CategoryChanged(job="a", before=c.Category.PROGRESSING, after=c.Category.CONVERGED, growth=0.001),
    )

    assert timeline(story).now.endswith(
        "its request for another place waits: "
        "FlowCon does not list it as completing, so it may only be slow because of its cap"
    )
