"""Users' Jobs become submissions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.harness.kubernetes_stub import KubernetesStub, adapter_on, served
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.harness.waiting import until
from tests.unit.cluster.kinds_objects import GANG, SPECS, job_set, made_by, users

from steepest.clock import SystemClock
from steepest.cluster.kubernetes import KubernetesCluster, reflector
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, JOB_SET, TRAIN_JOB
from steepest.cluster.kubernetes.manifest import CLUSTER
from steepest.cluster.kubernetes.objects import SCHEDULE
from steepest.cluster.kubernetes.users_jobs import ENDED, USERS_JOB
from steepest.collector import users_jobs
from steepest.collector.notice_writer import NoticeWriter
from steepest.collector.users_jobs import UsersJobs
from steepest.events import cluster as c
from steepest.events.common import Resources

T = TypeVar("T")

UID = "0a1b2c3d-0000-4000-8000-000000000000"
LONG_ENOUGH_TO_MARK_S = 0.5
PATIENCE_S = 5.0
"""Less than the period of the effector's safety net: what is configured wakes it."""


def users_job(name: str) -> dict[str, object]:
    """A suspended Job that is opted in, as an API server gives it."""
    container = {"name": "train", "image": "trainer:3", "command": ["train"]}
    return {
        "metadata": {"name": name, "uid": UID, "labels": {SCHEDULE: "true"}},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "status": {},
    }


class Followed:
    """The effector over an API server in memory.

    Attributes:
        stub: The API server.
        pool: What the effector has seen of the log.
        sent: What it has submitted.
        jobs: The effector.
    """

    def __init__(self, stub: KubernetesStub, cluster: KubernetesCluster) -> None:
        self.stub = stub
        self.pool = FoldedPool()
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        notices = NoticeWriter(cluster.connect(), cluster.jobs_settings, SystemClock())
        self.jobs = UsersJobs(cluster.connect(), cluster.jobs_settings, lambda _: True, notices)

    async def send(self, *events: Any, **_: Any) -> None:
        """Keep what the effector wants to be in the log."""
        for event in events:
            self.sent.put_nowait(event)

    def fold(self, event: c.ClusterEvent) -> None:
        """It is in the log."""
        accepted = self.pool.fold(event)
        self.jobs.observe(self.pool.view, self.pool.log[-1], accepted=accepted)

    async def next(self, kind: type[T]) -> T:
        """The next of what is sent of this kind; an object is submitted again until its job is in the log."""
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(found := await self.sent.get(), kind):
                pass
            return found

    def cancelled(self) -> list[str]:
        """The jobs that it has cancelled, of what nothing else has asked for."""
        sent = [self.sent.get_nowait() for _ in range(self.sent.qsize())]
        return [event.job for event in sent if isinstance(event, c.JobCancelRequested)]


@contextlib.asynccontextmanager
async def following(
    stub: KubernetesStub, folder: Path, kinds: Sequence[Kind] = (JOB,), namespaces: Sequence[str] = ()
) -> AsyncIterator[Followed]:
    """It runs while the block does."""
    async with served(stub, folder / "kubeconfig"):
        cluster = adapter_on(folder, [("n1", Resources(1_000, 1_024))], kinds, namespaces=namespaces)
        made = Followed(stub, cluster)
        made.jobs.caught_up(made.pool.view)
        running = asyncio.create_task(made.jobs.run(made.send))
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await cluster.close()


async def test_a_job_is_submitted_once_the_pool_is_configured(tmp_path: Path) -> None:
    """Before that no flag is in force, and the log would not hold which nodes the job may run on."""
    stub, marked = KubernetesStub(), asyncio.Event()
    stub.put("jobs", users_job("mine"))
    stub.before = lambda *_: marked.set()
    async with following(stub, tmp_path) as followed:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(marked.wait(), LONG_ENOUGH_TO_MARK_S)
        followed.fold(c.PoolConfigured())
        submitted = await followed.next(c.JobSubmitted)

    assert submitted.request == UID


async def test_a_job_set_is_marked_submitted_and_cancelled_once_it_is_deleted(tmp_path: Path) -> None:
    """As a Job is; where nothing names the kind, it is not read."""
    stub = KubernetesStub()
    stub.put("jobsets", users(job_set()))
    async with following(stub, tmp_path, (JOB, JOB_SET)) as followed:
        followed.fold(c.PoolConfigured())
        submitted = await followed.next(c.JobSubmitted)
        marked = stub.objects["jobsets"]["mine"]
        followed.fold(submitted)
        stub.drop("jobsets", "mine")
        cancelled = await followed.next(c.JobCancelRequested)

    assert (submitted.job, submitted.spec.world) == (GANG, 5)
    assert CLUSTER in marked["metadata"]["labels"]
    for role in marked["spec"]["replicatedJobs"]:
        assert role["template"]["spec"]["template"]["metadata"]["labels"].keys() <= marked["metadata"]["labels"].keys()
    assert cancelled.job == GANG


async def test_a_train_job_is_submitted_once_its_job_set_is_there(tmp_path: Path) -> None:
    """Which its own controller makes, and then says so in its status; an object that is not its own is none."""
    stub, looked = KubernetesStub(), asyncio.Event()
    stub.before = lambda _method, kind, _name: looked.set() if kind == "jobsets" else None
    asked, made = users(SPECS["TrainJob"]), made_by(TRAIN_JOB)
    assert made is not None
    stub.put("trainjobs", asked)
    stub.put("jobsets", {**made, "metadata": {**made["metadata"], "uid": "an-older-one", "ownerReferences": []}})
    async with following(stub, tmp_path, (JOB, TRAIN_JOB)) as followed:
        followed.fold(c.PoolConfigured())
        await asyncio.wait_for(looked.wait(), PATIENCE_S)
        stub.put("jobsets", made)
        stub.put("trainjobs", {**asked, "status": {"jobsStatus": []}})
        submitted = await followed.next(c.JobSubmitted)
        marked = stub.objects["trainjobs"]["mine"]

    assert (submitted.job, submitted.spec.world, submitted.request) == (GANG, 5, UID)
    assert submitted.spec.env == {USERS_JOB: "TrainJob/mine"}
    assert CLUSTER in marked["metadata"]["labels"]
    assert [method for method, kind, _ in stub.asked if method != "GET"] == ["PATCH"]


async def test_a_kind_that_is_not_named_is_not_asked_for(tmp_path: Path) -> None:
    """Its objects are neither listed nor written, opted in or not."""
    stub = KubernetesStub()
    stub.put("jobsets", users(job_set()))
    stub.put("jobs", users_job("other"))
    async with following(stub, tmp_path) as followed:
        followed.fold(c.PoolConfigured())
        assert (await followed.next(c.JobSubmitted)).job.startswith("other.")

    assert stub.listed == {"jobs": 1}


async def test_a_kind_that_the_cluster_lacks_is_listed_once_and_cancels_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs may run: an API server that starts does not know a kind yet that it will. It is looked for again later."""
    stub = KubernetesStub()
    stub.put("jobsets", users(job_set()))
    stub.put("jobs", users_job("other"))
    job_sets = stub.objects.pop("jobsets")
    async with following(stub, tmp_path, (JOB, JOB_SET)) as followed:
        of_a_job_set = c.JobSpec(command=("train",), env={USERS_JOB: "JobSet/gone"})
        uid = "ffffffff-0000-4000-8000-000000000000"
        followed.fold(c.PoolConfigured())
        followed.fold(c.JobSubmitted(job="gone.ffffffff", request=uid, spec=of_a_job_set))
        await followed.next(c.JobSubmitted)
        await asyncio.sleep(LONG_ENOUGH_TO_MARK_S)
        assert followed.cancelled() == []
        assert stub.listed == {"jobs": 1, "jobsets": 1}

    monkeypatch.setattr(reflector, "ABSENT_S", 0.1)
    async with following(stub, tmp_path, (JOB_SET,)) as followed:
        followed.fold(c.PoolConfigured())
        await until(lambda: stub.listed["jobsets"] > 1)
        stub.objects["jobsets"] = job_sets
        assert (await followed.next(c.JobSubmitted)).job == GANG


@pytest.mark.parametrize("request_", [UID, "another"])
async def test_an_object_whose_name_another_job_has_is_left_alone_and_told_why(tmp_path: Path, request_: str) -> None:
    """Also where that job has its UID as its request: it is not the object's, which is neither marked nor known."""
    stub, name = KubernetesStub(), f"mine.{UID[:8]}"
    stub.put("jobs", users_job("mine"))
    async with following(stub, tmp_path) as followed:
        followed.fold(c.JobSubmitted(job=name, request=request_, spec=c.JobSpec(command=("sleep", "1"))))
        followed.fold(c.PoolConfigured())
        await until(lambda: followed.jobs._refused)
        assert followed.sent.empty()

    assert followed.jobs._refused == {UID: f"the pool has another job named {name}: make it again"}
    assert CLUSTER not in stub.objects["jobs"]["mine"]["metadata"]["labels"]


def teams_job(team: str) -> Any:
    """A Job ``mine`` of a team, which has a UID of its own."""
    made: Any = users_job("mine")
    made["metadata"] |= {"namespace": team, "uid": f"{TEAMS[team]}-0000-4000-8000-000000000000"}
    return made


TEAMS = {"team-a": "aaaaaaaa", "team-b": "bbbbbbbb", "other": "cccccccc"}


async def test_jobs_of_one_name_in_two_namespaces_are_submitted_marked_and_cancelled_apart(tmp_path: Path) -> None:
    """Each says where it is; what is deleted in one namespace cancels nothing in another one."""
    stub = KubernetesStub()
    for team in TEAMS:
        stub.put("jobs", teams_job(team))
    async with following(stub, tmp_path, namespaces=("team-a", "team-b")) as followed:
        followed.fold(c.PoolConfigured())
        submitted = {(one := await followed.next(c.JobSubmitted)).job: one for _ in range(2)}
        for each in submitted.values():
            followed.fold(each)
        stub.drop("jobs", "team-a/mine")
        cancelled = await followed.next(c.JobCancelRequested)
        assert followed.cancelled() == []

    assert {job: each.spec.env[USERS_JOB] for job, each in submitted.items()} == {
        "mine.aaaaaaaa": "team-a/Job/mine",
        "mine.bbbbbbbb": "team-b/Job/mine",
    }
    assert cancelled.job == "mine.aaaaaaaa"
    assert CLUSTER in stub.objects["jobs"]["team-b/mine"]["metadata"]["labels"]
    assert CLUSTER not in stub.objects["jobs"]["other/mine"]["metadata"]["labels"]
    assert "other/jobs" not in stub.listed


async def test_a_namespace_that_is_refused_cancels_nothing_and_stops_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs may run; once it is open its objects are submitted too."""
    monkeypatch.setattr(reflector, "LONGEST_PAUSE_S", 0.2)
    stub = KubernetesStub()
    stub.closed.add("team-a")
    for team in ("team-a", "team-b"):
        stub.put("jobs", teams_job(team))
    async with following(stub, tmp_path, namespaces=("team-a", "team-b")) as followed:
        uid = "ffffffff-0000-4000-8000-000000000000"
        of_team = c.JobSpec(command=("train",), env={USERS_JOB: "team-a/Job/gone"})
        followed.fold(c.PoolConfigured())
        followed.fold(c.JobSubmitted(job="gone.ffffffff", request=uid, spec=of_team))
        submitted = await followed.next(c.JobSubmitted)
        followed.fold(submitted)
        await until(lambda: stub.listed["team-a/jobs"] > 1)
        assert submitted.job == "mine.bbbbbbbb"
        assert followed.cancelled() == []
        stub.closed.clear()
        assert (await followed.next(c.JobSubmitted)).job == "mine.aaaaaaaa"


async def test_an_object_whose_job_has_ended_is_never_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays suspended where its job failed, and the view forgets such jobs: the object itself says so. A copy is new."""
    monkeypatch.setattr(users_jobs, "_LOOK_S", 0.05)
    stub = KubernetesStub()
    stub.put("jobs", users_job("mine"))

    def annotations() -> Any:
        return stub.objects["jobs"]["mine"]["metadata"].get("annotations", {})

    async with following(stub, tmp_path) as followed:
        followed.fold(c.PoolConfigured())
        submitted = await followed.next(c.JobSubmitted)
        followed.fold(submitted)
        followed.fold(c.JobRejected(job=submitted.job, request=UID, reason="it never fits"))
        await until(lambda: ENDED in annotations())
        said = annotations()[ENDED]

    copied: Any = users_job("copy")
    copied["metadata"] |= {"uid": f"ffffffff{UID[8:]}", "annotations": {ENDED: said}}
    stub.put("jobs", copied)
    async with following(stub, tmp_path) as forgetful:
        forgetful.fold(c.PoolConfigured())
        assert (await forgetful.next(c.JobSubmitted)).job == "copy.ffffffff"
        await asyncio.sleep(LONG_ENOUGH_TO_MARK_S)
        again = {event.job for event in (forgetful.sent.get_nowait() for _ in range(forgetful.sent.qsize()))}

    assert said == f"failed {UID}"
    assert again <= {"copy.ffffffff"}
