"""What the view takes in and what it refuses: repetitions, gaps, versions, nonsense, and facts that come out of order."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    cancelled,
    category,
    checkpoint,
    grown,
    joined,
    migration,
    placement,
    requested,
    stay,
    submitted,
    used,
)

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import ID, PREVIOUS
from steepest.events.registry import READS
from steepest.view import jobs, lifecycle
from steepest.view.cluster_view import ClusterView, fold_all
from steepest.view.state import Phase

CC, WC, PC = c.Category.CONVERGED, c.Category.WATCHED, c.Category.PROGRESSING


def decision(offset: int, index: int = 0, previous: str = "", decider: str = "placer") -> dict[str, str]:
    """Headers of what a decider made because of the record at ``offset``."""
    headers = {ID: f"{decider}/e1/cluster/0/{offset}/{index}"}
    return headers | ({PREVIOUS: previous} if previous else {})


# --- decisions delivered again -----------------------------------------------------------------------------------------


def test_a_decision_delivered_again_does_not_count() -> None:
    """Of each stream the view knows the newest position; nothing at or before it counts again."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("a"), submitted("b"))
    first, second = decision(5), decision(5, 1, previous=decision(5)[ID])
    assert pool.fold(placement("a", "w1"), first)
    assert pool.fold(placement("b", "w1"), second)
    pool.carry_out("a")
    pool.end("a")
    pool.fold(submitted("c"))
    for headers in (first, second, decision(4), decision(5, 0)):
        assert pool.fold(placement("c", "w1", plan=headers[ID]), headers) is False
        assert pool.view.repeated
        assert pool.view.plan(headers[ID]) is None
    assert pool.view.state.gaps == 0
    assert pool.fold(placement("c", "w1"), decision(6, 0, previous=second[ID]))
    assert not pool.view.repeated


def test_streams_are_told_apart() -> None:
    """By decider, log identity, topic and partition: the position of one says nothing about another."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", CC)
    assert pool.fold(stay("job", "w1"), decision(900, decider="node-scorer"))
    assert pool.fold(migration("job", "w1", "w2", kind=c.MoveKind.REBALANCE), decision(3, decider="rebalancer"))


def test_a_gap_in_a_stream_is_counted_and_the_decision_still_counts() -> None:
    """The id that a decision names as the one before it was never seen: something is missing, and people should know."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("a"), submitted("b"), submitted("d"))
    assert pool.fold(placement("a", "w1"), decision(1))
    assert pool.view.state.gaps == 0
    assert pool.fold(placement("b", "w1"), decision(9, previous=decision(5)[ID]))
    assert pool.view.state.gaps == 1
    assert pool.fold(placement("d", "w1"), decision(10, previous=decision(9)[ID]))
    assert pool.view.state.gaps == 1


def test_another_logic_that_names_its_own_decision_leaves_no_gap() -> None:
    """Two releases decide beside each other, and the old one had decided more about a record: nothing is missing."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("a"), submitted("b"), submitted("d"))
    assert pool.fold(placement("a", "w1"), decision(5))
    assert pool.fold(placement("b", "w1"), decision(5, 1, previous=decision(5)[ID]))
    assert pool.fold(placement("d", "w1"), decision(7, previous=decision(5)[ID]))
    assert pool.view.state.gaps == 0


def test_a_stream_whose_beginning_is_missing_is_a_gap() -> None:
    """The first decision seen names one before it."""
    pool = FoldedPool(w1=1_000)
    pool.fold(submitted("a"))
    assert pool.fold(placement("a", "w1"), decision(9, previous=decision(5)[ID]))
    assert pool.view.state.gaps == 1


def test_a_header_that_is_no_decisions_id_says_nothing() -> None:
    """Users and adapters may number their records as they like."""
    pool = FoldedPool(w1=1_000)
    assert pool.fold(submitted("a"), {ID: "something/else"})
    assert pool.view.state.streams == {}


# --- what the log asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configured", [c.PoolConfigured(reads=READS + 1), c.PoolConfigured(flags=(9_999,))], ids=["version", "flag"]
)
def test_a_log_that_asks_for_a_newer_reader_stops_this_one_before_the_record(configured: c.PoolConfigured) -> None:
    """The view is exactly as it was, so that a newer reader goes on from there."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    before = pool.view.snapshot()
    with pytest.raises(LogVersionError, match=f"this reader knows version {READS}"):
        pool.fold(configured)
    assert pool.view.snapshot() == before


def test_the_first_opening_names_the_log() -> None:
    """An opening behind it, of a process that opened the log at the same time, changes nothing but the position."""
    pool = FoldedPool(w1=1_000)
    position = pool.view.position
    before = msgspec.structs.replace(pool.view.state)
    assert not pool.fold(c.LogOpened(epoch="e2"))
    assert pool.view.position == position + 1
    pool.view.state.position = position
    assert pool.view.state == before


def test_parameters_count_from_their_record_on() -> None:
    """New weights change every node's score."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1", CC)
    pool.run("b", "w1", CC)
    pool.run("d", "w2", PC)
    assert [node.name for node in pool.view.nodes.by_score()] == ["w1", "w2"]
    pool.fold(c.PoolConfigured(parameters=PoolParameters(specon=SpeConParameters(weight_cc=3.0))))
    assert [node.name for node in pool.view.nodes.by_score()] == ["w2", "w1"]


# --- time ---------------------------------------------------------------------------------------------------------------


def test_a_tick_that_does_not_go_on_is_ignored() -> None:
    """Counted time never goes back, and never stands."""
    pool = FoldedPool()
    assert pool.feed(*(c.Tick(counted_ms=ms) for ms in (1_000, 2_000, 2_000, 1_500, 3_000))) == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert pool.view.counted_ms == 3_000


# --- nodes --------------------------------------------------------------------------------------------------------------


def test_no_tick_expires_everything() -> None:
    """One that says the largest time there is moves the clock by two periods, and the next real one goes on from there."""
    pool = FoldedPool()
    pool.fold(c.PoolConfigured(parameters=PoolParameters(tick_ms=500)))
    pool.feed(c.Tick(counted_ms=500), c.Tick(counted_ms=LARGEST))
    assert pool.view.counted_ms == 1_500
    assert pool.feed(c.Tick(counted_ms=1_000), c.Tick(counted_ms=2_000)) == [False, True]
    assert pool.view.counted_ms == 2_000


def test_a_lost_node_frees_nothing() -> None:
    """Its replicas may still run: its jobs go on counting there, and it is in no order that anybody chooses from."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", cpu_m=300)
    assert pool.fold(c.NodeLost(node="w1", silent_ms=15_000))
    assert pool.allocated() == {"w1": 300}
    assert pool.job("job").alive
    assert [node.name for node in pool.view.nodes.by_score()] == ["w2"]
    assert [node.name for node in pool.view.nodes.by_count()] == ["w2"]
    assert [node.name for nodes in pool.view.nodes.by_allocation() for node in nodes] == ["w2"]
    assert (len(pool.view.nodes), pool.view.nodes.replicas) == (1, 0)


@pytest.mark.parametrize("sign", [used("w1", 0), joined("w1", 1_000)], ids=["usage", "joined"])
def test_a_lost_node_that_is_heard_of_is_back_with_all_that_it_holds(sign: c.ClusterEvent) -> None:
    """What was allocated there still is."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1", cpu_m=300)
    pool.fold(c.NodeLost(node="w1", silent_ms=15_000))
    assert pool.fold(sign)
    assert [node.allocated.cpu_m for node in pool.view.nodes.by_score()] == [300]
    assert (len(pool.view.nodes), pool.view.nodes.replicas) == (1, 1)


def test_a_job_that_ends_on_a_lost_node_is_counted_nowhere_when_the_node_is_back() -> None:
    """What is taken and given back meanwhile is kept, though the node is in no order."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1")
    pool.run("stays", "w1")
    pool.fold(c.NodeLost(node="w1", silent_ms=15_000))
    pool.end("job")
    assert pool.view.nodes.replicas == 0
    pool.fold(used("w1", 0))
    assert pool.view.nodes.replicas == 1
    assert pool.allocated() == {"w1": 100}


def test_a_node_is_lost_once_and_an_unknown_one_never() -> None:
    """Both are refused."""
    pool = FoldedPool(w1=1_000)
    lost = c.NodeLost(node="w1", silent_ms=1)
    assert pool.feed(lost, lost, c.NodeLost(node="w9", silent_ms=1), used("w9", 1)) == [True, False, False, False]


def test_a_node_that_shrinks_keeps_what_runs_on_it_and_takes_no_more() -> None:
    """Nothing is stopped for it; what is free may be less than nothing."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1", cpu_m=800)
    pool.feed(joined("w1", 500), submitted("next", 100))
    assert pool.node("w1").free.cpu_m == -300
    assert pool.fold(placement("next", "w1")) is False


def test_the_node_not_heard_of_for_longest_is_the_same_after_a_restart() -> None:
    """Nodes heard of at the same counted time are ordered by their records, not by how the view was built."""
    pool = FoldedPool(w1=1_000, w2=1_000, w3=1_000)
    pool.feed(used("w1", 1), used("w3", 1), used("w2", 1))
    pool.feed(used("w1", 1))
    again = ClusterView.restore(pool.view.snapshot())
    for view in (pool.view, again):
        silent = view.nodes.longest_silent()
        assert silent is not None
        assert silent.name == "w3"


# --- jobs ---------------------------------------------------------------------------------------------------------------


def test_a_submission_sent_twice_counts_once() -> None:
    """The client makes the request's id."""
    pool = FoldedPool()
    assert pool.feed(submitted("job"), submitted("job")) == [True, False]


def test_a_second_job_of_a_name_changes_nothing_of_the_first() -> None:
    """It counts as a request, which the placer rejects; the rejection names the request and leaves the first alone."""
    pool = FoldedPool()
    pool.feed(submitted("job", 100), submitted("job", 900, request="other"))
    assert pool.job("job").spec.requests.cpu_m == 100
    assert pool.fold(c.JobRejected(job="job", request="other", reason="taken")) is False
    assert pool.fold(c.JobAdmitted(job="job", request="other")) is False
    assert pool.job("job").phase is Phase.WAITING


UNKNOWN_JOB = (
    cancelled("unknown"),
    c.JobAdmitted(job="unknown", request="r"),
    c.JobRejected(job="unknown", request="r", reason=""),
    c.JobEnded(job="unknown", outcome=c.Outcome.FINISHED),
    c.RetryPlanned(job="unknown", incarnation=0, charged=False, not_before_ms=0, reason=""),
    c.ReplicaStarted(job="unknown", incarnation=1, node="w1"),
    c.ReplicaStopped(job="unknown", incarnation=1, node="w1"),
    c.CheckpointModeDeclared(job="unknown", incarnation=1, node="w1", mode="none"),  # type: ignore[arg-type]
    c.CheckpointVerified(job="unknown", incarnation=1, node="w1", checkpoint=checkpoint()),
    grown("unknown"),
    category("unknown", CC),
    requested("unknown"),
    stay("unknown", "w1"),
    placement("unknown", "w1"),
    migration("unknown", "w1", "w1"),
    c.StepBegun(plan="p", step=c.Step.STOP, attempt=1, job="unknown", incarnation=1, node="w1"),
    c.PlanAbandoned(plan="p", job="unknown", code="x"),
)


@pytest.mark.parametrize("event", UNKNOWN_JOB, ids=lambda event: type(event).__name__)
def test_what_is_said_of_an_unknown_job_is_refused(event: c.ClusterEvent) -> None:
    """Nothing of it counts, and nothing breaks."""
    pool = FoldedPool(w1=1_000)
    assert pool.fold(event) is False
    assert pool.view.touched is None


def test_what_is_said_of_a_job_that_is_over_is_refused() -> None:
    """Late facts and decisions change nothing of it."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", CC)
    pool.end("job")
    before = pool.job("job"), pool.allocated()
    late = (
        cancelled("job"),
        c.JobAdmitted(job="job", request="request-job"),
        c.JobRejected(job="job", request="request-job", reason=""),
        c.JobEnded(job="job", outcome=c.Outcome.FAILED),
        c.RetryPlanned(job="job", incarnation=1, charged=False, not_before_ms=0, reason=""),
        pool.stopped("job", 1),
        c.CheckpointModeDeclared(job="job", incarnation=1, node="w1", mode="none"),  # type: ignore[arg-type]
        c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint()),
        grown("job"),
        category("job", PC),
        requested("job"),
        stay("job", "w1"),
        placement("job", "w1", plan="p", incarnation=1),
        migration("job", "w1", "w2"),
    )
    assert pool.feed(*late) == [False] * len(late)
    assert (pool.job("job"), pool.allocated()) == before


@pytest.mark.parametrize(
    "verdict",
    [
        c.JobEnded(job="job", outcome=c.Outcome.FAILED),
        c.JobRejected(job="job", request="request-job", reason="no"),
        c.RetryPlanned(job="job", incarnation=1, charged=False, not_before_ms=0, reason=""),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_job_that_runs_is_not_over_by_anybodys_word(verdict: c.ClusterEvent) -> None:
    """Its process ends first; freeing its place before would let two jobs have it."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    assert pool.fold(verdict) is False
    assert pool.allocated() == {"w1": 100}


def test_a_job_whose_process_ends_holds_nothing_from_there_on() -> None:
    """Its place is free before anybody decides what becomes of it."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    assert pool.fold(pool.stopped("job", 1, reason="out of memory"))
    job = pool.job("job")
    assert (job.phase, job.alive, job.exit_status, job.stop_reason) == (Phase.STOPPED, False, 1, "out of memory")
    assert (pool.allocated(), pool.counts()) == ({}, {})


def test_a_retried_job_waits_in_its_old_place_in_the_queue() -> None:
    """It was submitted first."""
    pool = FoldedPool(w1=1_000)
    pool.run("old", "w1")
    pool.fold(submitted("new"))
    pool.fold(pool.stopped("old", 1))
    assert pool.fold(c.RetryPlanned(job="old", incarnation=1, charged=True, not_before_ms=500, reason="x"))
    assert [job.name for job in pool.view.jobs.queue] == ["old", "new"]
    job = pool.job("old")
    assert (job.retries_used, job.retries_held, job.not_before_counted_ms) == (1, 1, 500)


def test_a_stale_retry_does_not_count() -> None:
    """It names an incarnation that is not the newest."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.fold(pool.stopped("job", 1))
    assert pool.fold(c.RetryPlanned(job="job", incarnation=0, charged=False, not_before_ms=0, reason="")) is False


def test_a_change_of_category_moves_the_job_in_its_nodes_score() -> None:
    """2, 1.5 and 1 (thesis §6.2)."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1", PC)
    for after, score in ((WC, 1.5), (CC, 1.0), (PC, 2.0)):
        pool.fold(category("job", after))
        assert pool.view.nodes.score(pool.node("w1")) == score


def test_who_holds_rebalancing_up() -> None:
    """Running jobs of which growth was measured, that are neither converged nor decided."""
    pool = FoldedPool(w1=1_000)
    undecided = []
    for event in (
        submitted("job"),
        placement("job", "w1"),
        grown("job"),
        category("job", WC),
        category("job", CC),
        category("job", PC),
        stay("job", "w1", incarnation=0),
    ):
        pool.fold(event)
        undecided.append(pool.view.jobs.undecided)
    assert undecided == [0, 0, 1, 1, 0, 1, 0]


def test_a_stay_counts_once() -> None:
    """Of two decisions about one job the first in the log is the one."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1", CC)
    assert pool.feed(stay("job", "w1"), stay("job", "w1")) == [True, False]


# --- what is remembered ---------------------------------------------------------------------------------------------------


def test_old_ended_jobs_and_plans_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log without end needs bounded memory; the oldest go first, and no job that is not over."""
    monkeypatch.setattr(jobs, "ENDED_KEPT", 3)
    monkeypatch.setattr(lifecycle, "PLANS_KEPT", 3)
    pool = FoldedPool(w1=1_000)
    pool.run("stays", "w1")
    for number in range(10):
        pool.run(f"job-{number}", "w1")
        pool.end(f"job-{number}")
    assert [job.name for job in pool.view.jobs] == ["stays", "job-7", "job-8", "job-9"]
    assert list(pool.view.state.plans) == ["place-job-7-0", "place-job-8-0", "place-job-9-0"]
    again = ClusterView.restore(pool.view.snapshot())
    for view in (pool.view, again):
        assert list(view.over) == ["place-job-7-0", "place-job-8-0", "place-job-9-0"]


def test_of_a_job_that_is_over_only_what_is_asked_for_again_is_remembered() -> None:
    """What its start needed fills no snapshot, nor does a long command; what its output is read by stays."""
    env = {f"VAR{number}": "x" * 60 for number in range(40)}
    pool = FoldedPool(w1=1_000)
    asked = submitted("job", metric="reward", log_format="keras", retries=2, working_dir="/home", image="i", env=env)
    command = ("python", "train.py", "--names", "x" * 1_000)
    spec = msgspec.structs.replace(asked.spec, command=command)
    pool.feed(msgspec.structs.replace(asked, spec=spec), placement("job", "w1"))
    pool.carry_out("job")
    assert pool.job("job").spec == spec.counted
    pool.end("job")

    kept = c.JobSpec(
        command=command[:3],
        requests=spec.counted.requests,
        checkpoint_mode=spec.checkpoint_mode,
        metric="reward",
        log_format="keras",
        retries=2,
    )
    assert pool.job("job").spec == kept
    assert len(msgspec.msgpack.encode(pool.job("job"))) < 600


@pytest.mark.parametrize("command", [("x" * 300,), (), ("x" * 200, "y")])
def test_a_long_program_is_cut_short(command: tuple[str, ...]) -> None:
    """People see its beginning, if it has any."""
    pool = FoldedPool(w1=1_000)
    spec = c.JobSpec(command=command)
    pool.feed(c.JobSubmitted(job="job", request="r", spec=spec), c.JobRejected(job="job", request="r", reason="no"))
    assert pool.job("job").spec.command == ("x" * 200,) * bool(command)


def test_plans_are_forgotten_in_the_order_in_which_they_ended_also_after_a_restart() -> None:
    """One that was made first and ended last is the last to go."""
    pool = FoldedPool(w1=1_000)
    pool.feed(submitted("slow"), placement("slow", "w1"))
    pool.run("quick", "w1")
    pool.carry_out("slow")
    assert list(pool.view.over) == ["place-quick-0", "place-slow-0"]
    assert list(ClusterView.restore(pool.view.snapshot()).over) == ["place-quick-0", "place-slow-0"]


def test_a_name_is_free_again_once_its_job_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it is taken."""
    monkeypatch.setattr(jobs, "ENDED_KEPT", 1)
    pool = FoldedPool(w1=1_000)
    for name in ("a", "b"):
        pool.run(name, "w1")
        pool.end(name)
    pool.fold(submitted("a", request="second"))
    assert (pool.job("a").phase, pool.job("a").request) == (Phase.WAITING, "second")


def test_a_record_that_nobody_can_read_is_passed_over() -> None:
    """The position moves on; nothing else does."""
    pool = FoldedPool(w1=1_000)
    pool.run("job", "w1")
    pool.view.skip(pool.view.position)
    assert (pool.view.touched, pool.view.repeated) == (None, False)
    assert pool.view.position == len(pool.log) + 1


def test_folding_a_log_at_once_is_folding_it_record_by_record() -> None:
    """One fold for everyone."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("job", "w1", CC)
    pool.fold(migration("job", "w1", "w2"))
    pool.carry_out("job")
    assert fold_all(pool.log).snapshot() == pool.view.snapshot()
