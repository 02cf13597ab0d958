"""CPU control groups: the files that are written in both versions, and on a real hierarchy where there is one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness.contracts import contract_job

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.groups import Groups, cap, find_groups
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError
from steepest.events.common import Resources

NODES = {"large": 1500, "small": 300}


@pytest.fixture
def real(tmp_path: Path) -> Groups:
    """Control groups on this machine."""
    groups = find_groups(tmp_path)
    if groups is None:
        pytest.skip("CPU control groups cannot be used here")
    return groups


def test_version_1_files(tmp_path: Path) -> None:
    """Version 1: a quota per 100 ms and a weight for each node; −1 is no cap of a replica's own."""
    groups = Groups(tmp_path, 1, tmp_path)
    groups.open(NODES)
    group = groups.make("large", "mnist.0.1", 250, 1500)

    assert written(groups.top / "node-large") == {
        "cpu.cfs_quota_us": "150000",
        "cpu.cfs_period_us": "100000",
        "cpu.shares": "1536",
    }
    assert written(groups.top) == {"cpu.shares": "1843"}
    assert written(group) == {"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000"}
    cap(group, None, 1500)
    assert written(group)["cpu.cfs_quota_us"] == "-1"


def test_version_2_files(tmp_path: Path) -> None:
    """Version 2: the controller is passed on, and quota and period are one file."""
    groups = Groups(tmp_path, 2, tmp_path)
    for path in (groups.top, groups.top / "node-large", groups.top / "node-small"):
        path.mkdir()
        (path / "cpu.max").touch()
    groups.open(NODES)

    assert written(groups.top / "node-large") == {
        "cpu.max": "150000 100000",
        "cpu.weight": "150",
        "cgroup.subtree_control": "+cpu",
    }
    cap(groups.top / "node-small", None, 300)
    assert written(groups.top / "node-small")["cpu.max"] == "max 100000"


@pytest.mark.parametrize(("limit_m", "quota"), [(1500, "-1"), (9999, "-1"), (0, "1000"), (10, "1000"), (11, "1100")])
def test_caps_stay_within_what_the_kernel_takes(tmp_path: Path, limit_m: int, quota: str) -> None:
    """A cap beyond the node's capacity is none, and none is below 1 ms a period."""
    cap(tmp_path, limit_m, 1500)

    assert written(tmp_path)["cpu.cfs_quota_us"] == quota


def test_state_folders_have_groups_of_their_own(tmp_path: Path) -> None:
    """Two clusters on one machine never share a group; one and the same finds its own again."""
    first, again, other = (Groups(tmp_path, 1, tmp_path / name).top for name in ("a", "a", "b"))

    assert first == again != other


def test_groups_that_a_crash_left_are_removed(real: Groups) -> None:
    """The next adapter takes over the groups of its state folder, and removes those without a process."""
    real.open(NODES)
    left = real.make("large", "mnist.0.1", 250, 1500)
    real.open(NODES)
    assert not left.exists()
    real.close()

    assert not real.top.exists()


HOLDER = """
import sys, time
from pathlib import Path
from steepest.cluster.local.groups import Groups
Groups(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])).open({"large": 1500})
print("open", flush=True)
time.sleep(600)
"""


def test_groups_of_killed_clusters_go_with_the_next_start_of_any(real: Groups, tmp_path: Path) -> None:
    """Those of a cluster that lives stay, and so do those in which a replica of a killed one runs on."""
    base, version = real.top.parent, real._version
    living, killed, busy = (Groups(base, version, tmp_path / name) for name in ("living", "killed", "busy"))
    living.open(NODES)
    asked = [sys.executable, "-c", HOLDER, str(base), str(version), str(tmp_path / "killed")]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        real.open(NODES)
        assert (killed.top / "node-large").exists()
        holder.kill()
    busy.open(NODES)
    replica = busy.make("large", "mnist.0.1", None, 1500)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        (replica / "cgroup.procs").write_text(str(process.pid))
        busy.close()
        real.open(NODES)
        assert replica.exists()
        assert [groups.top.exists() for groups in (living, busy, real)] == [True] * 3
        process.kill()  # from here on, a cluster of another test may remove the groups of it
    for groups in (living, busy, real):
        groups.close()

    assert not killed.top.exists()
    assert [groups.top for groups in (living, busy, real) if groups.top.exists()] == []


def test_looking_for_groups_leaves_none(real: Groups, tmp_path: Path) -> None:
    """A trial is undone."""
    found = find_groups(tmp_path / "other")

    assert found is not None
    assert not found.top.exists()
    assert found.top.parent == real.top.parent


async def test_a_replica_runs_in_a_group_that_goes_with_it(real: Groups, tmp_path: Path) -> None:
    """Its group holds the replica with its cap, gets a new cap by limit, and is removed at its end."""
    cluster = LocalCluster(tmp_path, [LocalNode("large", Resources(cpu_m=1500))], "test", cpu="cgroup")
    spec = ReplicaSpec(command=(sys.executable, contract_job.__file__), cpu_limit_m=300)
    await cluster.start(ReplicaId("mnist"), 1, "large", spec, None)
    group = real.top / "node-large" / "mnist.0.1"
    assert len((group / "cgroup.procs").read_text().split()) == 1
    before = (group / "cpu.cfs_quota_us").read_text() if (group / "cpu.cfs_quota_us").exists() else "30000\n"
    await cluster.limit(ReplicaId("mnist"), 1, 500)
    after = (group / "cpu.cfs_quota_us").read_text() if (group / "cpu.cfs_quota_us").exists() else "50000\n"
    await cluster.stop(ReplicaId("mnist"), 1, grace_s=60.0)
    await cluster.close()

    assert (before, after) == ("30000\n", "50000\n")
    assert not real.top.exists()


async def test_a_group_counts_children_in_sessions_of_their_own(real: Groups, tmp_path: Path) -> None:
    """What a job's group uses counts, wherever its processes moved."""
    burner = (
        f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'while True: pass'], start_new_session=True)"
    )
    cluster = LocalCluster(tmp_path, [LocalNode("large", Resources(cpu_m=1500))], "test", heartbeat_s=0.1, cpu="cgroup")
    await cluster.start(ReplicaId("mnist"), 1, "large", ReplicaSpec(command=(sys.executable, "-c", burner)), None)
    async for beat in cluster.heartbeats():
        if any((report.cpu_m or 0) > 100 for report in beat.replicas):
            break
    stopped = await cluster.stop(ReplicaId("mnist"), 1, grace_s=60.0)
    await cluster.close()

    assert stopped.exit_status == -signal.SIGTERM
    assert not real.top.exists()


def test_nodes_need_distinct_names(tmp_path: Path) -> None:
    """Two nodes of one name, or a name that is none, are the caller's mistake."""
    for names in (("a", "a"), ("../a",), ("",)):
        with pytest.raises(InputError):
            LocalCluster(tmp_path, [LocalNode(name, Resources(cpu_m=100)) for name in names], "test")


def written(group: Path) -> dict[str, str]:
    """The files of a group."""
    return {path.name: path.read_text() for path in group.iterdir() if path.is_file()}
