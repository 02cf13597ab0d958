"""Users' objects of further namespaces over an API server in memory: each is its own namespace's, and stops no other one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.json_patches import patched
from tests.harness.kubernetes_stub import OWN, KubernetesStub, adapter_on, served
from tests.harness.waiting import until
from tests.unit.cluster.kinds_objects import indexed, read, users

from steepest.cluster.folders import folder_cluster
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.ended_jobs import Retention
from steepest.cluster.kubernetes import KubernetesCluster, reflector
from steepest.cluster.kubernetes.agent.node_output import NodeOutput
from steepest.cluster.kubernetes.agent.node_sources import AgentNode, NodeSources
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.kinds.known import JOB, JOB_SET, OTHERS, Referred, reference, referred
from steepest.cluster.kubernetes.kinds.marks import marks
from steepest.cluster.kubernetes.manifest import VARIABLE, labels_of_job
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods
from steepest.cluster.kubernetes.objects import GATE, Pod
from steepest.cluster.kubernetes.pod_observer import PodRecord, pod_of
from steepest.cluster.kubernetes.users_jobs import USERS_JOB, job_name
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError, RefusedError, UncertainError
from steepest.events.common import Resources

NODES = [("n1", Resources(1_000, 1_024)), ("n2", Resources(1_000, 1_024))]
TEAMS = ("team-a", "team-b")
UIDS = {
    "team-a": "aaaaaaaa-0000-4000-8000-000000000000",
    "team-b": "bbbbbbbb-0000-4000-8000-000000000000",
    "other": "cccccccc-0000-4000-8000-000000000000",
}
JOBS = {team: job_name("mine", uid) for team, uid in UIDS.items()}
SAVED = 85


class Installation:
    """An adapter over an API server with two teams' namespaces.

    Attributes:
        stub: The API server.
        cluster: The adapter.
        changed: Kind and name of what it has asked to change.
    """

    def __init__(self, stub: KubernetesStub, folder: Path) -> None:
        self.stub = stub
        self._folder = folder
        self.changed: list[tuple[str, str]] = []
        stub.before = self._note
        self.cluster = self.adapter()
        self._adapters = [self.cluster]

    def adapter(self) -> KubernetesCluster:
        """An adapter on its folder."""
        return adapter_on(self._folder, NODES, namespaces=TEAMS)

    async def start_again(self) -> None:
        """Another adapter goes on."""
        await self.cluster.close()
        self.cluster = self.adapter()
        self._adapters.append(self.cluster)

    def opt_in(self, team: str, *, marked_as: str = "", uid: str = "") -> None:
        """A marked Job ``mine`` of a team; a user may have marked it as another job."""
        uid = uid or UIDS[team]
        asked = users(copy.deepcopy(indexed(1)), uid=uid, namespace=team, resourceVersion="1")
        change = marks(JOB, read(asked), self.cluster.jobs_settings, marked_as or job_name("mine", uid))
        self.stub.put("jobs", patched(asked, change))

    async def start(self, team: str, incarnation: int = 1) -> None:
        """Start a team's job."""
        env = {USERS_JOB: reference(JOB, "mine", team)}
        spec = ReplicaSpec(command=("train",), env=env, requests=Resources(cpu_m=100))
        await self.cluster.start(ReplicaId(JOBS[team]), incarnation, "n1", spec, None)

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods by namespace, of which each has one."""
        return {pod["metadata"]["namespace"]: pod for pod in self.stub.objects["pods"].values()}

    async def close(self) -> None:
        """Close its adapters."""
        for each in self._adapters:
            await each.close()

    def _note(self, method: str, kind: str, name: str) -> None:
        if method != "GET":
            self.changed.append((kind, name))


@pytest.fixture
async def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    """An installation that names both namespaces, and soon looks again for what was refused."""
    monkeypatch.setattr(reflector, "LONGEST_PAUSE_S", 0.2)
    stub = KubernetesStub()
    stub.node("n1")
    stub.node("n2")
    async with served(stub, tmp_path / "kubeconfig"):
        made = Installation(stub, tmp_path)
        yield made
        await made.close()


async def test_objects_of_one_name_are_jobs_of_their_own(installed: Installation, tmp_path: Path) -> None:
    """Each is resumed, placed, followed, limited and suspended where it is, also by an adapter that starts later."""
    for team in TEAMS:
        installed.opt_in(team)
        await installed.start(team)
    pods = installed.pods()
    names = {team: pod["metadata"]["name"] for team, pod in pods.items()}

    assert installed.changed == [
        *(("jobs", "team-a/mine"), ("pods", f"team-a/{names['team-a']}")),
        *(("jobs", "team-b/mine"), ("pods", f"team-b/{names['team-b']}")),
    ]
    for team in TEAMS:
        assert pods[team]["metadata"]["annotations"][f"{VARIABLE}STEEPEST_JOB"] == JOBS[team]
        record = pod_of(AdapterFolder(tmp_path / "state").incarnation(ReplicaId(JOBS[team]), 1))
        assert record == PodRecord(name=names[team], uid=pods[team]["metadata"]["uid"], namespace=team)
    logs = [f"/api/v1/namespaces/{team}/pods/{names[team]}/log" for team in TEAMS]
    await until(lambda: all(any(path.startswith(log) for path in installed.stub.paths) for log in logs))
    with pytest.raises(RefusedError, match="not allowed"):  # this server has no such subresource
        await installed.cluster.limit(ReplicaId(JOBS["team-b"]), 1, 500)
    assert f"/api/v1/namespaces/team-b/pods/{names['team-b']}/resize" in installed.stub.paths

    installed.changed.clear()
    assert (await installed.cluster.stop(ReplicaId(JOBS["team-b"]), 1, grace_s=30)).exit_status == SAVED
    await installed.start_again()
    assert (await installed.cluster.stop(ReplicaId(JOBS["team-a"]), 1, grace_s=30)).exit_status == SAVED
    assert installed.changed == [("jobs", "team-b/mine"), ("jobs", "team-a/mine")]


async def test_a_namespace_that_is_refused_stops_no_other_one(installed: Installation) -> None:
    """Its objects wait until it is open; whether an object is there is not known until then."""
    installed.stub.closed.add("team-a")
    for team in TEAMS:
        installed.opt_in(team)
    await installed.start("team-b")
    await installed.cluster.start(ReplicaId("own"), 1, "n2", ReplicaSpec(command=("train",)), None)
    owners = installed.cluster._own_jobs.owners

    assert set(installed.pods()) == {"team-b", OWN}
    assert (found := await owners.find(JOBS["team-b"])) is not None
    assert found.namespace == "team-b"
    with pytest.raises(RefusedError, match="forbidden"):
        await owners.find(JOBS["team-a"])
    with pytest.raises(RefusedError, match="forbidden"):
        await installed.start("team-a")

    installed.stub.closed.clear()
    await installed.start("team-a")
    assert set(installed.pods()) == {*TEAMS, OWN}


async def test_the_checkpoints_of_a_namespace_are_bounded(
    installed: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From there on none of its jobs starts that is new; what runs there goes on elsewhere, and others are not concerned."""
    monkeypatch.setattr(folder_cluster, "GIB", 2**20)
    bounded = adapter_on(tmp_path, NODES, namespaces=TEAMS, retention=Retention(checkpoints_gib=1))
    for team in TEAMS:
        installed.opt_in(team)
    await installed.start("team-a")
    saved = AdapterFolder(tmp_path / "state").checkpoints(JOBS["team-a"]) / "step-1"
    saved.mkdir()
    (saved / "weights").write_bytes(os.urandom(2**21))

    def asking(team: str) -> ReplicaSpec:
        return ReplicaSpec(command=("train",), env={USERS_JOB: reference(JOB, "new", team)})

    with pytest.raises(RefusedError, match=r"take 2\.0 GiB, and 1 are allowed") as refused:
        await bounded.start(ReplicaId("new.0a1b2c3d"), 1, "n1", asking("team-a"), None)
    installed.cluster, before = bounded, installed.cluster
    await installed.start("team-b")
    await before.stop(ReplicaId(JOBS["team-a"]), 1, grace_s=30)
    await installed.start("team-a", incarnation=2)
    await bounded.close()

    assert refused.value.code == "no-space"


async def test_what_another_namespace_has_marked_like_a_job_is_not_its_own(installed: Installation) -> None:
    """Labels are a user's to write: neither such an object nor such a pod gets the job's place, and with it its folders."""
    installed.opt_in("team-b", marked_as=JOBS["team-a"])
    settings = installed.cluster.jobs_settings
    gated = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "train"}]}
    labels = {**labels_of_job(settings, JOBS["team-a"]), "batch.kubernetes.io/job-completion-index": "0"}
    planted = {"name": "planted", "namespace": "team-b", "labels": labels, "ownerReferences": []}
    installed.stub.put("pods", {"metadata": planted, "spec": gated})
    with pytest.raises(RefusedError, match="is gone"):
        await installed.start("team-a")
    assert await installed.cluster._own_jobs.owners.find(JOBS["team-a"]) is None
    installed.opt_in("team-a")
    await installed.start("team-a")

    assert {name for kind, name in installed.changed if kind == "jobs"} == {"team-a/mine"}
    assert not [name for kind, name in installed.changed if kind == "pods" and name.startswith("team-b/")]


async def test_a_job_that_only_has_the_name_of_an_object_leaves_it_alone(installed: Installation) -> None:
    """Its spec says whose pods it has, also to an adapter that starts later: the object is neither resumed nor suspended."""
    installed.opt_in(OWN, uid=UIDS["team-a"])
    squatter = ReplicaId(JOBS["team-a"])
    await installed.cluster.start(squatter, 1, "n1", ReplicaSpec(command=("train",)), None)
    await installed.cluster.stop(squatter, 1, grace_s=30)
    await installed.start_again()
    await installed.cluster.start(squatter, 2, "n2", ReplicaSpec(command=("train",)), None)
    installed.stub.objects["jobs"]["mine"]["spec"]["suspend"] = False  # its own user's doing
    await installed.cluster.stop(squatter, 2, grace_s=1)
    await installed.cluster._own_jobs.remove(squatter)

    changed = {name for kind, name in installed.changed if kind == "jobs"}
    assert len(changed) == 1
    assert "mine" not in changed


async def test_a_namespace_that_is_not_named_is_not_asked_about(installed: Installation) -> None:
    """Neither for what is new nor for a job of before, which is then not known to have ended."""
    installed.opt_in("other")
    with pytest.raises(RefusedError, match="none of the installation's namespaces any more"):
        await installed.start("other")
    folder = AdapterFolder(installed.cluster._state.path).incarnation(ReplicaId(JOBS["other"]), 1)
    folder.path.mkdir(parents=True)
    folder.write(folder.path / "pod.json", PodRecord(name="mine-1", uid="u", namespace="other"))
    with pytest.raises(UncertainError, match="none of the installation's any more"):
        await installed.cluster._observer.observe(folder)

    assert not [path for path in installed.stub.paths if "/namespaces/other/" in path]
    assert ("jobs", "other/mine") not in installed.changed


def test_a_namespace_is_named_once(tmp_path: Path) -> None:
    """The own one is open without being named."""
    for names in (("team-a", "team-a"), (OWN,)):
        with pytest.raises(InputError, match="named twice"):
            adapter_on(tmp_path, NODES, namespaces=names)


@pytest.mark.parametrize("kind", [JOB, *OTHERS.values()], ids=lambda kind: kind.name)
def test_the_log_names_the_namespace_of_what_is_not_in_the_own_one(kind: Any) -> None:
    """An object of the own one is named as in older logs, and an older version takes no other one for its own."""
    everything = (JOB, *OTHERS.values())

    assert reference(kind, "mine", "team-a") == f"team-a/{kind.name}/mine"
    assert referred(everything, f"team-a/{kind.name}/mine") == Referred(kind, "mine", "team-a")
    assert referred(everything, reference(kind, "mine")) == Referred(kind, "mine", "")
    assert referred((JOB_SET,), "team-a/Job/mine") is None


async def test_an_agent_reads_the_logs_of_a_pod_in_the_folder_of_its_namespace(tmp_path: Path) -> None:
    """Kubelets name these folders by namespace, name and UID."""
    api = KubernetesApi()
    pods = NamespacedPods(api, (OWN, *TEAMS), {}, lambda _: None, lambda _: ())
    found = msgspec.convert({"metadata": {"name": "p", "uid": "u", "namespace": "team-a"}}, Pod)
    incarnation = AdapterFolder(tmp_path).incarnation(ReplicaId("mine"), 1)
    sources = NodeSources(AgentNode("n1", logs=tmp_path / "logs"), pods)
    record = PodRecord(name="p", uid="u", namespace="team-a")
    output = sources.output(incarnation, record, found, patience_s=0, delay_s=0)
    assert isinstance(output, NodeOutput)
    output.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await output.task
    await sources.usage.close()

    assert output._log.folder == tmp_path / "logs" / "team-a_p_u" / "job"
