"""Which files of ended jobs are kept, and which are removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from steepest.cluster.folders import ended_jobs, folder_cluster
from steepest.cluster.folders.ended_jobs import SPARED_S, Retention, sweep
from steepest.cluster.local.cluster import LocalCluster, LocalNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import Resources


def left(folder: Path, job: str, *, days_ago: float, size: int = 10) -> Path:
    """A job that was retired so long ago, and its checkpoint."""
    checkpoint = folder / job / "checkpoints" / "step-1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights").write_bytes(os.urandom(size))
    at_s = time.time() - days_ago * SPARED_S
    os.utime(folder / job, (at_s, at_s))
    return folder / job


def test_the_newest_jobs_stay(tmp_path: Path) -> None:
    """As many as are wanted; the oldest go."""
    for number in range(5):
        left(tmp_path, f"job-{number}.1", days_ago=10 - number)

    assert sweep(tmp_path, Retention(jobs=2)) == ["job-2.1", "job-1.1", "job-0.1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job-3.1", "job-4.1"]


def test_they_stay_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they take no more of the disk than is wanted."""
    monkeypatch.setattr(ended_jobs, "GIB", 2**20)
    for number in range(4):
        left(tmp_path, f"job-{number}.1", days_ago=10 - number, size=400_000)

    assert sweep(tmp_path, Retention(gib=1)) == ["job-1.1", "job-0.1"]


def test_what_ended_today_stays_however_much_it_is(tmp_path: Path) -> None:
    """A user may still fetch it; a clock that is ahead keeps more, and removes nothing."""
    left(tmp_path, "old.1", days_ago=2)
    for number, days_ago in enumerate((0.5, 0.0, -1_000)):
        left(tmp_path, f"new-{number}.1", days_ago=days_ago)

    assert sweep(tmp_path, Retention(jobs=1)) == ["old.1"]


def test_links_are_neither_followed_nor_counted(tmp_path: Path) -> None:
    """A job may have left one to anything."""
    outside = left(tmp_path / "elsewhere", "precious", days_ago=100)
    kept = tmp_path / "ended"
    (left(kept, "old.1", days_ago=3) / "checkpoints" / "link").symlink_to(outside)
    (kept / "odd").symlink_to(outside)
    left(kept, "new.1", days_ago=2)

    assert sweep(kept, Retention(jobs=1)) == ["old.1"]
    assert (outside / "checkpoints" / "step-1" / "weights").exists()


async def test_forgetting_a_job_makes_room(tmp_path: Path) -> None:
    """The cluster applies its retention when it is asked to forget a job, whose own folder counts from then on."""
    cluster = LocalCluster(tmp_path, [LocalNode("n1", Resources(1_000))], "pool", retention=Retention(jobs=1))
    left(tmp_path / "ended", "old.1", days_ago=2)
    left(tmp_path / "jobs", "job", days_ago=2)

    await cluster.forget("job")
    await cluster.close()

    assert [path.name for path in (tmp_path / "ended").iterdir()] == ["job.1"]


async def test_checkpoints_of_jobs_that_are_not_over_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound no new job starts, and leaves no trace; once there is room again it does."""
    monkeypatch.setattr(folder_cluster, "GIB", 2**20)
    bound = Retention(checkpoints_gib=1)
    cluster = LocalCluster(tmp_path, [LocalNode("n1", Resources(1_000))], "pool", retention=bound)
    left(tmp_path / "jobs", "large", days_ago=0, size=2**21)
    spec = ReplicaSpec(command=("true",))
    with pytest.raises(RefusedError) as refused:
        await cluster.start(ReplicaId("new"), 1, "n1", spec, None)
    assert await cluster.lookup(ReplicaId("new")) is None
    await cluster.forget("large")
    await cluster.start(ReplicaId("new"), 1, "n1", spec, None)
    await cluster.stop(ReplicaId("new"), 1, grace_s=0.0)
    await cluster.close()

    assert refused.value.code == "no-space"
