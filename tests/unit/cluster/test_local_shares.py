"""How a node's CPU is divided: the arithmetic, and the shares sent to supervisors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.folders.adapter_folder import IncarnationFolder, SpecRecord
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.local.duty_cycles import DutyCycles
from steepest.cluster.local.process_roster import LocalTracked
from steepest.cluster.local.shares import demand, divide
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaId, ReplicaPhase

AMOUNTS = st.floats(min_value=0, max_value=1e6)
BOUNDS = st.dictionaries(st.integers(), AMOUNTS, max_size=8)
CLOSE = 1e-6


@given(AMOUNTS, BOUNDS, st.data())
def test_unused_shares_go_back_to_all(capacity: float, bounds: dict[int, float], data: st.DataObject) -> None:
    """At any measured usage, no CPU is idle that a replica may have, and no bound is broken."""
    demands = {key: data.draw(AMOUNTS) for key in bounds}
    shares = divide(capacity, bounds, demands)

    assert all(share <= bounds[key] * (1 + CLOSE) + CLOSE for key, share in shares.items())
    assert sum(shares.values()) == pytest.approx(min(capacity, sum(bounds.values())), rel=CLOSE, abs=CLOSE)


def test_unused_cpu_goes_to_another_replica() -> None:
    """Of 600 millicores a replica that asks for 100 leaves the rest to the one that wants all."""
    shares = divide(600, {"idle": 600, "busy": 600}, {"idle": 100, "busy": float("inf")})

    assert shares == {"idle": 100, "busy": 500}


@pytest.mark.parametrize(
    ("share", "used", "expected"),
    [(None, 100, float("inf")), (400, None, float("inf")), (400, 390, float("inf")), (400, 100, 125), (400, 0, 50)],
)
def test_demand_is_judged_by_use(share: float | None, used: float | None, expected: float) -> None:
    """Unknown or nearly full use may want everything; less use wants a quarter more, and at least something."""
    assert demand(share, used) == expected


def test_parallel_jobs_are_throttled_by_their_parallelism(tmp_path: Path) -> None:
    """A job that uses two cores while it runs gets half the time for the same share."""
    duty = DutyCycles({"a": 400})
    job = running(tmp_path, "parallel")
    ((_, first),) = duty.divide([job], measured=False)
    for _ in range(20):
        job.use = ResourceUse(cpu_m=2 * duty.divide([job], measured=True)[0][1])

    assert first == 400
    assert duty.divide([job], measured=True)[0][1] == pytest.approx(200, abs=2)


def test_limits_bound_shares(tmp_path: Path) -> None:
    """A capped replica gets its cap at most; the others share what is left of their node, and only of their node."""
    duty = DutyCycles({"a": 900, "b": 500})
    capped, other, elsewhere = (
        running(tmp_path, "capped", limit_m=100),
        running(tmp_path, "other"),
        running(tmp_path, "b"),
    )
    elsewhere.node = "b"
    shares = {
        tracked.folder.replica.job: share for tracked, share in duty.divide([capped, other, elsewhere], measured=False)
    }

    assert shares == {"capped": 100, "other": 800, "b": 500}


def test_a_newcomer_starts_with_a_fair_share(tmp_path: Path) -> None:
    """A replica starts with what it gets if every replica on its node wants all, so the sum fits the capacity."""
    duty = DutyCycles({"a": 900, "b": 500})

    assert duty.first("a", None, [running(tmp_path, "x"), running(tmp_path, "y", limit_m=100)]) == 400
    assert duty.first("a", 50, [running(tmp_path, "x")]) == 50
    assert duty.first("b", None, [running(tmp_path, "x")]) == 500


def running(tmp_path: Path, job: str, limit_m: int | None = None) -> LocalTracked:
    """A replica that runs on node ``a``, by duty cycle."""
    tracked = LocalTracked(
        IncarnationFolder(tmp_path / job, ReplicaId(job), 1), SpecRecord(node="a", command=("x",), cpu_limit_m=limit_m)
    )
    tracked.seen = Observation(phase=ReplicaPhase.RUNNING)
    return tracked
