"""Under a peer's rules, the engine runs any trace as a slow reference of the peer's program does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.events.common import Resources
from steepest_lab.sim.allocation.nodes import FreeUnits, counting_suffices
from steepest_lab.sim.allocation.simulate import simulate_allocation
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.rules import MURI, POLLUX
from steepest_lab.sim.workload import SimJob, Workload

from . import muri_oracle, pollux_oracle

ASKED = st.tuples(
    st.integers(0, 12).map(lambda step: step * 700.0),
    st.sampled_from([1, 1, 2, 4, 8, 16, 32]),
    st.integers(1, 4_000),
    st.sampled_from([25.0, 886.0, 921.0, 1_000.0, 2_500.0]),
    st.sampled_from([*muri_oracle.MODELS, "another"]),
)


def muri_job(number: int, asked: muri_oracle.Asked) -> SimJob:
    """The job as the reader makes it."""
    submit_s, gpus, iterations, ms, model = asked
    return SimJob(
        name=f"job-{number}",
        submit_s=submit_s,
        requests=Resources(gpus=gpus),
        work_s=iterations * ms / 1000,
        iterations=iterations,
        model=model,
        details={"iteration_time": str(ms)},
    )


BY_A_ROUNDING = [(1400.0, 32, 2889, 2500.0, "bert"), (1400.0, 8, 255, 886.0, ""), (1400.0, 16, 2183, 2500.0, "")]
"""One of them ends a rounding short of a limit of Tiresias at the very instant reckoned for it."""


@example(asked=BY_A_ROUNDING)
@given(asked=st.lists(ASKED, min_size=1, max_size=25))
@settings(max_examples=scaled(200), deadline=None)
def test_muri(asked: list[muri_oracle.Asked]) -> None:
    """Every job ends when Muri's program would end it, for each of the three policies, on 4 nodes of 8 GPUs."""
    asked.sort(key=lambda job: job[0])
    jobs = [muri_job(number, one) for number, one in enumerate(asked)]
    workload = Workload(source="drawn", format="muri", jobs=jobs)
    expected = {
        "srtf": muri_oracle.shortest(asked, 4, by_gpus=False),
        "srsf": muri_oracle.shortest(asked, 4, by_gpus=True),
        "tiresias": muri_oracle.tiresias(asked, 32),
    }

    for policy, ends in expected.items():
        result = simulate_allocation(workload, open_cluster("4x8gpu"), policy, MURI, 0)
        assert [job.end_s for job in result.jobs] == pytest.approx(ends, rel=1e-12, abs=1e-9), policy


@given(asked=st.lists(st.sampled_from([1, 2, 4, 8, 16, 32]), max_size=30))
@settings(max_examples=scaled(200), deadline=None)
def test_counting_does_for_powers_of_two(asked: list[int]) -> None:
    """Where the engine counts GPUs instead of packing nodes again, packing takes the same jobs."""
    nodes = FreeUnits([8] * 4)
    assert counting_suffices(nodes.capacity, asked)
    free = 32
    for units in asked:
        place = nodes.yarn(units)
        assert (place is not None) == (units <= free)
        if place is not None:
            nodes.take(place)
            free -= units


APPLICATION = st.tuples(
    st.integers(0, 900),
    st.sampled_from(["alpha", "beta"]),
    st.integers(1, 8),
    st.sampled_from([64, 100, 128, 200, 256]),
)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two invented applications."""
    return pollux_oracle.write_tables(tmp_path_factory.mktemp("traces"))


@given(asked=st.lists(APPLICATION, min_size=1, max_size=10))
@settings(max_examples=scaled(40), deadline=None)
def test_pollux(profiles: Path, asked: list[pollux_oracle.Asked]) -> None:
    """Every job ends at the second at which Pollux's program would end it, on 4 nodes of 4 GPUs."""
    asked.sort(key=lambda job: job[0])
    jobs = [
        SimJob(
            name=f"job-{number}",
            submit_s=float(submit),
            requests=Resources(gpus=1),
            replicas=replicas,
            work_s=100.0,
            iterations=100,
            model=application,
            batch_size=batch,
        )
        for number, (submit, application, replicas, batch) in enumerate(asked)
    ]
    workload = Workload(source="drawn", format="pollux", jobs=jobs)

    for policy in ("tiresias", "optimus"):
        result = simulate_allocation(workload, open_cluster("4x4gpu"), policy, POLLUX, 0, profiles=profiles)
        assert [job.end_s for job in result.jobs] == pollux_oracle.run(asked, policy), policy
