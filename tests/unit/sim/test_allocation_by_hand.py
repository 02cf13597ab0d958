"""Each allocation policy on a case that is small enough to be worked out by hand.

A start costs 10 s and a restart 30 s (10,000 MiB are saved and loaded at 1,000 MiB/s), unless a case says otherwise.
"""

from __future__ import annotations

import msgspec
import pytest

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.baselines.tiresias import TiresiasParameters
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.rules import DEFAULT, MURI, POLLUX, AtRestart, Rules
from steepest_lab.sim.workload import SimJob, Workload

RULES = msgspec.structs.replace(DEFAULT, overhead=AtRestart(launch_s=10, checkpoint_mib=10_000))
FREE = msgspec.structs.replace(DEFAULT, overhead=AtRestart(launch_s=0, checkpoint_mib=0.0))


def run(
    policy: str,
    *jobs: tuple[float, int, float],
    gpus: tuple[int, ...] = (1,),
    rules: Rules = RULES,
    speeds: tuple[float, ...] = (),
) -> SimulationResult:
    """Jobs of (submission, GPUs, work) named a, b, c … on nodes of so many GPUs."""
    made = [
        SimJob(name="abcdefgh"[n], submit_s=at, requests=Resources(gpus=asked), work_s=work, iterations=100)
        for n, (at, asked, work) in enumerate(jobs)
    ]
    nodes = [
        SimNode(
            name=f"n{n}",
            capacity=Resources(gpus=size),
            storage_mib_s=1000,
            speed=speeds[n] if speeds else 1.0,
        )
        for n, size in enumerate(gpus)
    ]
    cluster = ClusterSpec(source="by hand", nodes=nodes)
    return simulate_allocation(Workload(source="by hand", format="none", jobs=made), cluster, policy, rules, 0)


def ends(result: SimulationResult) -> list[float | None]:
    """When each job ended."""
    return [None if job.end_s is None else round(job.end_s, 6) for job in result.jobs]


def test_fifo_holds_the_queue() -> None:
    """Job c would fit beside a immediately, but waits behind b, which does not fit."""
    result = run("fifo", (0, 1, 100), (1, 2, 50), (2, 1, 20), gpus=(2,))

    assert ends(result) == [110, 170, 200]
    assert [job.start_s for job in result.jobs] == [0, 110, 170]


def test_sjf_prefers_the_short_and_lets_others_finish() -> None:
    """B and c wait for a; c is shorter than b."""
    assert ends(run("sjf", (0, 1, 100), (1, 1, 50), (2, 1, 20))) == [110, 200, 140]


def test_srtf_preempts_and_pays_for_the_restart() -> None:
    """A has 70 s left at 40 s, when b comes with 20 s. It goes on at 70 s, 30 s of which it restarts."""
    result = run("srtf", (0, 1, 100), (40, 1, 20))

    assert ends(result) == [170, 70]
    assert [job.preemptions for job in result.jobs] == [1, 0]


def test_srtf_forgets_no_overhead_before_it_is_paid() -> None:
    """A is preempted within its launch and has all its work left."""
    assert ends(run("srtf", (0, 1, 100), (4, 1, 20))) == [34 + 30 + 100, 34]


def test_srsf_counts_gpus() -> None:
    """At 100 s, a needs 60 s more on 1 GPU, b 40 s on 2: srtf takes b, srsf keeps a."""
    jobs = ((0, 1, 160), (100, 2, 40))

    assert ends(run("srtf", *jobs, gpus=(2,), rules=FREE)) == [200, 140]
    assert ends(run("srsf", *jobs, gpus=(2,), rules=FREE)) == [160, 200]


def test_las_takes_turns_by_rounds() -> None:
    """B has had nothing when it comes, so it runs; at 600 s both have had 300 s, and b, first in the list, goes on."""
    result = run("las", (0, 1, 600), (300, 1, 500), rules=FREE)

    assert ends(result) == [1100, 800]


def test_tiresias_demotes_at_its_limits() -> None:
    """A drops a queue at 3,250 s, when b gets its turn; b drops too at 6,500 s, behind a, which ends first."""
    result = run("tiresias", (0, 1, 4_000), (10, 1, 3_600), rules=FREE)

    assert ends(result) == [6_500 + 750, 7_250 + 350]
    assert [job.preemptions for job in result.jobs] == [1, 1]


def test_tiresias_lets_one_that_fits_pass() -> None:
    """B needs both GPUs and waits; c is behind it and fits."""
    assert ends(run("tiresias", (0, 1, 100), (1, 2, 50), (2, 1, 20), gpus=(2,), rules=FREE)) == [100, 150, 22]


def test_tiresias_promotes_a_job_that_has_waited() -> None:
    """Jobs take turns of 100 s: one that has waited half its turn returns to the first queue with a new count."""
    jobs = ((0, 1, 300), (10, 1, 300))
    promoting = {"tiresias": TiresiasParameters(limits=(100.0,), promote=0.5)}
    rules = msgspec.structs.replace(FREE, parameters=promoting)
    plain = msgspec.structs.replace(FREE, parameters={"tiresias": TiresiasParameters(limits=(100.0,))})

    assert ends(run("tiresias", *jobs, rules=rules)) == [500, 600]
    assert ends(run("tiresias", *jobs, rules=plain)) == [400, 600]


def test_gandiva_gives_slices_in_turn() -> None:
    """Slices of 60 s from 0: a, b, a, which then has had its 120 s; b has 90 s left of its 150 s."""
    result = run("gandiva", (0, 1, 120), (0, 1, 150), rules=FREE)

    assert ends(result) == [180, 270]
    assert [job.preemptions for job in result.jobs] == [1, 1]


def test_gandiva_serves_wide_jobs_in_their_turn() -> None:
    """A wide job that does not fit in one slice is first in the next."""
    result = run("gandiva", (0, 1, 90), (0, 2, 60), (0, 1, 90), gpus=(2,), rules=FREE)

    assert ends(result) == [150, 120, 150]


def test_optimus_gives_the_last_gpu_where_it_saves_most() -> None:
    """Of 3 GPUs each gets one; with a second, a would save 400 s of 800, b 100 s of 200."""
    result = run("optimus", (0, 2, 400), (0, 2, 100), gpus=(3,), rules=FREE)

    assert ends(result) == [400, 200]


def test_optimus_waits_for_its_rounds() -> None:
    """A job that comes within a round starts with the next."""
    result = run("optimus", (0, 1, 100), (10, 1, 100), gpus=(2,), rules=FREE)

    assert [job.start_s for job in result.jobs] == [0, 600]


def test_slaq_gives_one_gpu_to_whoever_has_reported_nothing() -> None:
    """Until a curve can be fitted, there is no reason for a second GPU."""
    assert ends(run("slaq", (0, 2, 100), gpus=(2,), rules=FREE)) == [200]


def test_slaq_prefers_the_falling_loss() -> None:
    """An hour in, the job in its first tenth has more to gain than the one that has flattened out."""
    result = run("slaq", (0, 3, 6_000), (3_600, 3, 60_000), gpus=(4,), rules=FREE)

    first, second = result.jobs
    assert second.migrations > 0
    assert first.outcome == second.outcome == "finished"


@pytest.mark.parametrize(("asked", "expected"), [(2, 110.0), (6, 210.0)])
def test_a_gang_goes_at_its_slowest_nodes_pace(asked: int, expected: float) -> None:
    """Two GPUs lie on the fast first node; six need both nodes."""
    assert ends(run("fifo", (0, asked, 200), gpus=(4, 4), speeds=(2.0, 1.0))) == [expected]


def test_a_job_that_fits_no_cluster_is_rejected() -> None:
    """A rejected job does not block the others."""
    result = run("fifo", (0, 3, 100), (1, 1, 20), gpus=(1, 1))

    assert [job.outcome for job in result.jobs] == ["rejected", "finished"]


def test_a_cluster_without_gpus_rejects_all() -> None:
    """This holds under each placement rule."""
    for rules in (RULES, MURI):
        assert [job.outcome for job in run("srtf", (0, 1, 10), gpus=(0, 0), rules=rules).jobs] == ["rejected"]


def test_replicas_that_ask_for_cpu_stay_whole() -> None:
    """With a and b, 500 and 1,000 millicores are free; c's replica of 1,200 waits, though there are more in all."""
    jobs = [
        SimJob(name=name, submit_s=at, requests=Resources(cpu_m=cpu), replicas=replicas, work_s=work)
        for name, at, cpu, replicas, work in (("a", 0, 1_000, 2, 100), ("b", 0, 1_500, 1, 50), ("c", 1, 1_200, 1, 20))
    ]
    nodes = [SimNode(name=f"n{n}", capacity=Resources(cpu_m=2_500), storage_mib_s=1000) for n in range(2)]

    result = simulate_allocation(
        Workload(source="by hand", format="none", jobs=jobs), ClusterSpec(source="", nodes=nodes), "sjf", FREE, 0
    )

    assert ends(result) == [100, 50, 70]
    assert result.capacity == 5_000


def test_muri_charges_at_every_event() -> None:
    """An arrival at 50 s costs a running job of an unknown model 10 s more; the interval in which it ends is free."""
    alone = run("srtf", (0, 1, 100), gpus=(2,), rules=MURI)
    disturbed = run("srtf", (0, 1, 100), (50, 1, 1_000), gpus=(2,), rules=MURI)

    assert ends(alone) == [101.5]
    assert ends(disturbed)[0] == 111.5


@pytest.mark.parametrize(
    ("policy", "rules", "gpus", "part"),
    [
        ("muri-s", RULES, 1, "no allocation policy 'muri-s'"),
        ("srtf", POLLUX, 1, "no folder"),
    ],
)
def test_wrong_input_is_refused(policy: str, rules: Rules, gpus: int, part: str) -> None:
    """The error names the fault and the first step."""
    with pytest.raises(InputError, match=part) as caught:
        run(policy, (0, gpus, 10), rules=rules)

    assert caught.value.hint


def test_muri_knows_no_three_gpus_of_a_model_in_its_table() -> None:
    """Its own run fails there too."""
    job = SimJob(name="a", submit_s=0, requests=Resources(gpus=3), work_s=10, iterations=10, model="bert")
    cluster = ClusterSpec(source="", nodes=[SimNode(name="n", capacity=Resources(gpus=8))])

    with pytest.raises(InputError, match=r"job a: the rules know .* not with 3"):
        simulate_allocation(Workload(source="", format="", jobs=[job]), cluster, "srtf", MURI, 0)
