"""Pods with keepers: what they have that others have not, and the programs on the volume that all of them share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served

from steepest.cluster import keepers
from steepest.cluster.container_paths import TEMPORARY
from steepest.cluster.folders.adapter_folder import AdapterFolder, Hello
from steepest.cluster.kubernetes import jobs
from steepest.cluster.kubernetes.manifest import JobManifest, JobSettings, manifest
from steepest.cluster.kubernetes.objects import ClusterNode
from steepest.cluster.kubernetes.steps.kept import LOADERS, PodKeeper, provide, remove_unused, write_order
from steepest.cluster.kubernetes.users_jobs import USERS_JOB
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import ClusterError, RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, KeeperFacts, Resources
from steepest.keeper.control import Control
from steepest.keeper.order import JOBS_ENVIRONMENT, KeeperOrder

SETTINGS = JobSettings(
    namespace="training",
    label="0123456789ab",
    claim="steepest",
    below=Path("pool"),
    image="trainer:1",
    user=65_534,
    most=Resources(cpu_m=4000, memory_mib=8192),
)
KEEPER = PodKeeper("keepers/0123", most_bytes=1 << 30)
MNIST = ReplicaId("mnist")
SAVED = CheckpointRef(name="step-5", step=5, digest="sha256:00")


def made(folder: Path, incarnation: int, restore: CheckpointRef | None = None, **spec: Any) -> JobManifest:
    """The Job of an incarnation that a keeper keeps."""
    asked = ReplicaSpec(**{"command": ("python3", "train.py"), **spec})
    return manifest(SETTINGS, AdapterFolder(folder).incarnation(MNIST, incarnation), asked, restore, KEEPER)


def pod_of(found: JobManifest) -> dict[str, Any]:
    """The spec of its pods."""
    spec: dict[str, Any] = found.job["spec"]["template"]["spec"]
    return spec


def test_a_keeper_has_what_criu_needs_and_nothing_else(tmp_path: Path) -> None:
    """Six capabilities, no way to more, process ids of its own, and programs that no pod can write."""
    pod = pod_of(made(tmp_path, 1))
    (container,) = pod["containers"]

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {
            "drop": ["ALL"],
            "add": ["CHECKPOINT_RESTORE", "SYS_PTRACE", "SETPCAP", "SETGID", "SETUID", "CHOWN"],
        },
    }
    assert pod["securityContext"] == {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "Unconfined"}}
    assert not {name for name, on in pod.items() if name.startswith(("host", "share")) and on}
    written = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert written == {"/steepest/control", "/steepest/checkpoints", TEMPORARY}
    assert {each["name"] for each in pod["volumes"]} == {"state"}


def test_what_a_job_s_user_says_reaches_the_job_alone(tmp_path: Path) -> None:
    """Its command is in the order and its variables are in one of the keeper's; those that change loaders are empty."""
    pod = pod_of(made(tmp_path, 1, env={"LD_PRELOAD": "/mine.so", "PRICE": "$(HOME)"}, working_dir="/work"))
    (container,) = pod["containers"]
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    given = json.loads(variables.pop(JOBS_ENVIRONMENT))

    assert variables == dict.fromkeys(LOADERS, "")
    assert given["LD_PRELOAD"] == "/mine.so"
    assert given["PRICE"] == "$$(HOME)"  # Kubernetes makes one dollar of it
    assert container["command"][-2:] == ["/steepest/program/steepest/keeper", "/steepest/order.json"]
    assert container["workingDir"] == "/work"  # which the runtime makes where the image lacks it


def test_a_job_stays_the_same_over_its_moves(tmp_path: Path) -> None:
    """So a move neither makes a new Job nor counts as a failure of this one: the order is in the incarnation's folder."""
    first, second = made(tmp_path, 1), made(tmp_path, 2, SAVED)
    orders = [each for each in pod_of(first)["containers"][0]["volumeMounts"] if each["mountPath"].endswith(".json")]

    assert first.digest == second.digest
    assert [each["subPathExpr"] for each in orders] == ["pool/jobs/mnist/0/$(STEEPEST_INCARNATION)/keeping.json"]


def test_an_order_names_the_image_and_what_to_restore(tmp_path: Path) -> None:
    """The image's name stands for its files; the digest is the log's; the temporary files' folder is there."""
    state = AdapterFolder(tmp_path)
    folder = state.incarnation(MNIST, 2)
    folder.control.mkdir(parents=True)
    spec = ReplicaSpec(command=("python3", "train.py"))
    write_order(state, folder, spec, SAVED, KEEPER, user=65_534, image="trainer:1")
    order = KeeperOrder.load(folder.keeping)

    assert order.files == "trainer:1"
    assert list(order.restore or ()) == ["step-5", "sha256:00"]
    assert list(order.user or ()) == [65_534, 65_534]
    assert order.most_bytes == KEEPER.most_bytes
    assert state.temporary("mnist").stat().st_mode & 0o777 == 0o700


def test_programs_are_on_the_volume_once_and_others_beside_them(tmp_path: Path) -> None:
    """A keeper that runs keeps its own after an upgrade; a keeper without root's rights can read them."""
    state = AdapterFolder(tmp_path / "state")
    state.make()
    homes = [tmp_path / name for name in ("older", "newer")]
    for home in homes:
        (home / "root").mkdir(parents=True)
        (home / "root" / "criu").write_text(home.name)
        (home / "loader").symlink_to("root/criu")
    found = [provide(state, home) for home in (*homes, homes[0])]

    assert found[0] == found[2] != found[1]
    assert sorted(f"keepers/{each.name}" for each in (state.path / "keepers").iterdir()) == sorted(set(found))
    for home, place in zip(homes, found, strict=False):
        made = state.path / place
        assert made.stat().st_mode & 0o777 == 0o755
        assert (made / "criu" / "loader").read_text() == home.name
        assert (made / "keeper" / "__main__.py").exists()


def test_programs_with_which_nothing_runs_are_removed(tmp_path: Path) -> None:
    """Not those of a job that runs, not those of a start of the last hour, and never the newest ones."""
    state = AdapterFolder(tmp_path / "state")
    state.make()
    now_s = time.time()
    for number, name in enumerate(("0ld", "0a", "0b", "0c")):
        (state.path / "keepers" / name).mkdir(parents=True)
        since_s = now_s - (7_200 - number if name != "0c" else 0)
        os.utime(state.path / "keepers" / name, (since_s, since_s))
    for job, name in (("runs", "0a"), ("ended", "0b")):
        folder = state.incarnation(ReplicaId(job), 1)
        folder.control.mkdir(parents=True)
        (state.job(job) / "checkpoints").mkdir()
        write_order(
            state, folder, ReplicaSpec(command=("a",)), None, PodKeeper(f"keepers/{name}"), user=os.getuid(), image="i"
        )
    folder.exit.write_text("{}")
    remove_unused(state)
    assert sorted(each.name for each in (state.path / "keepers").iterdir()) == ["0a", "0c"]
    os.utime(state.path / "keepers" / "0a")
    state.incarnation(ReplicaId("runs"), 1).exit.write_text("{}")
    remove_unused(state)
    assert sorted(each.name for each in (state.path / "keepers").iterdir()) == ["0a", "0c"]


def test_programs_that_were_half_copied_are_removed(tmp_path: Path) -> None:
    """Each takes 70 MiB. A copy of the last hour may be under way."""
    state = AdapterFolder(tmp_path / "state")
    state.make()
    for name in (".new-killed", ".old-0a", ".new-now", "0a"):
        (state.path / "keepers" / name / "criu").mkdir(parents=True)
        if name != ".new-now":
            os.utime(state.path / "keepers" / name, (0, 0))
    remove_unused(state)
    assert sorted(each.name for each in (state.path / "keepers").iterdir()) == [".new-now", "0a"]


def test_starts_at_the_same_time_find_the_same_programs(tmp_path: Path) -> None:
    """Each copies them, the first one's copy counts, and no other is left."""
    state = AdapterFolder(tmp_path / "state")
    state.make()
    home = tmp_path / "home"
    home.mkdir()
    (home / "loader").touch()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: provide(state, home), range(4)))

    assert [f"keepers/{each.name}" for each in (state.path / "keepers").iterdir()] == [found[0]]
    assert len(set(found)) == 1


def test_a_job_without_a_keeper_has_no_right_of_one(tmp_path: Path) -> None:
    """Nothing of a keeper is in its pod."""
    folder = AdapterFolder(tmp_path).incarnation(MNIST, 1)
    text = msgspec.json.encode(manifest(SETTINGS, folder, ReplicaSpec(command=("true",)), None).job).decode()

    assert not [word for word in ("CHECKPOINT_RESTORE", "Unconfined", "keepers/", JOBS_ENVIRONMENT) if word in text]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KubernetesStub:
    """An API server with one node; there is a folder of CRIU."""
    home = tmp_path / "criu"
    home.mkdir()
    monkeypatch.setattr(keepers, "find_whole", lambda: home)
    made = KubernetesStub()
    made.node("n1")
    return made


async def started(stub: KubernetesStub, folder: Path) -> tuple[str, bool]:
    """Start a job whose user wants a keeper; why it has none, and whether its pod has a keeper's rights."""
    spec = ReplicaSpec(command=("train",), requests=Resources(cpu_m=100), checkpoint_mode=CheckpointMode.SYSTEM)
    async with served(stub, folder / "kubeconfig"):
        cluster = adapter_on(folder, [("n1", Resources(1_000, 1_024))], system_checkpoints=True)
        try:
            await cluster.start(MNIST, 1, "n1", spec, None)
        finally:
            await cluster.close()
    made = AdapterFolder(folder / "state").incarnation(MNIST, 1)
    hello = made.read(made.hello, Hello)
    (pod,) = stub.objects["pods"].values()
    has_rights = "CHECKPOINT_RESTORE" in json.dumps(pod)
    assert made.keeping.exists() == has_rights
    return hello.reason if hello is not None else "", has_rights


async def test_a_job_is_placed_with_its_keeper(stub: KubernetesStub, tmp_path: Path) -> None:
    """Its keeper says later whether it can be saved."""
    assert await started(stub, tmp_path) == ("", True)


async def test_a_job_whose_pods_are_refused_runs_without_a_keeper(stub: KubernetesStub, tmp_path: Path) -> None:
    """It says why, in the API server's words."""
    stub.refuses = 'pods "a" is forbidden: violates PodSecurity "baseline:latest"'
    reason, has_rights = await started(stub, tmp_path)

    assert reason.startswith("no-keeper: the Job mnist-")
    assert reason.endswith(stub.refuses)
    assert not has_rights


def test_a_node_says_what_an_image_depends_on() -> None:
    """Its kubelet's words; nothing where it says nothing. What else a kubelet says is passed over."""
    said = {"architecture": "amd64", "kernelVersion": "6.18.44-fc", "swap": {"capacity": 0}}
    node = {"metadata": {"name": "n"}, "status": {"nodeInfo": said}}

    assert msgspec.convert(node, ClusterNode).keeper == KeeperFacts(machine="amd64", kernel="6.18")
    assert msgspec.convert({**node, "status": {}}, ClusterNode).keeper is None


@pytest.mark.parametrize(("kernel", "cpu"), [("6.18", "avx avx2"), ("6.1", "")], ids=["same", "booted-since"])
async def test_what_a_keeper_sees_of_its_node_is_a_fact_of_the_node(
    stub: KubernetesStub, tmp_path: Path, kernel: str, cpu: str
) -> None:
    """A kubelet says nothing of its CPU; what a keeper saw counts until the node has another kernel."""
    stub.objects["nodes"]["n1"]["status"]["nodeInfo"] = {"architecture": "amd64", "kernelVersion": "6.18.44"}
    spec = ReplicaSpec(command=("train",), requests=Resources(cpu_m=100), checkpoint_mode=CheckpointMode.SYSTEM)
    place = {"machine": "x86_64", "kernel": kernel, "cpu": ["avx", "avx2"], "criu": [4, 2]}
    async with served(stub, tmp_path / "kubeconfig"):
        cluster = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024))], system_checkpoints=True)
        try:
            await cluster.start(MNIST, 1, "n1", spec, None)
            folder = AdapterFolder(tmp_path / "state").incarnation(MNIST, 1)
            Control(str(folder.control)).tell_place(place)
            Control(str(folder.control)).declare("system")
            async with asyncio.timeout(30), contextlib.aclosing(cluster.heartbeats()) as beats:  # type: ignore[type-var]
                async for beat in beats:
                    if any(each.checkpoint_mode is CheckpointMode.SYSTEM for each in beat.replicas):
                        break
        finally:
            await cluster.close()
    assert beat.keeper == KeeperFacts(machine="amd64", kernel="6.18", cpu=cpu, criu=(4, 2) if cpu else ())


async def test_a_users_job_never_runs_without_the_keeper_that_it_begins_with(
    stub: KubernetesStub, tmp_path: Path
) -> None:
    """Where the operator has withdrawn the leave since it was made, its start is refused for good, and says why."""
    env = {USERS_JOB: "Job/mine"}
    spec = ReplicaSpec(command=("train",), env=env, checkpoint_mode=CheckpointMode.SYSTEM)
    async with served(stub, tmp_path / "kubeconfig"):
        cluster = adapter_on(tmp_path, [("n1", Resources(1_000, 1_024))])
        try:
            with pytest.raises(RefusedError, match="pods may have none here") as refused:
                await cluster.start(MNIST, 1, "n1", spec, None)
        finally:
            await cluster.close()
    assert refused.value.code == "no-such-program"
    assert not stub.objects["pods"]


async def test_a_quota_takes_no_keeper_away(
    stub: KubernetesStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota that is exhausted has room again: the start fails, and is tried again with the keeper."""
    monkeypatch.setattr(jobs, "_POD_S", 0.5)
    stub.refuses = 'pods "a" is forbidden: exceeded quota: pods'
    with pytest.raises(ClusterError, match="has made no pod"):
        await started(stub, tmp_path)
    assert not stub.objects["jobs"]
