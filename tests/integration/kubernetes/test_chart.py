"""The chart on two real nodes: installed by Helm, over a Kafka of the release, changed, rolled back and removed.

The witnesses are the API server's objects and audit log, the kernel's control groups, and the files on the volume.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration import exclusive_training
from tests.integration.kubernetes.chart_release import (
    CHART,
    NAME,
    PATIENCE_S,
    TIMEOUT_S,
    LimitSampler,
    Release,
    eventually,
    incarnation_of,
    job_of,
)
from tests.integration.kubernetes.chart_rights import MAKES, RIGHTS, rights_of
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.kubeflow_objects import runtime, users_pytorch_job, users_train_job
from tests.integration.kubernetes.moving_system import events_once_there
from tests.integration.kubernetes.opted_in import users_job_set

from steepest.cli.main import main
from steepest.cluster.kubernetes.kinds.known import OTHERS
from steepest.cluster.kubernetes.kinds.users_object import is_suspended
from steepest.cluster.kubernetes.objects import SCHEDULE
from steepest.errors import ClusterError
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab

pytestmark = pytest.mark.timeout(1200)
JOBS = ("one", "two", "three")
LARGEST_M = 1600
"""The cap of a job without one: what the largest node has."""

CONTINUES_S = 90.0
"""How long a job may take to go on after a fault: a killed service's part in its group is free after 6 s."""

OURS = "app.kubernetes.io/instance=trial"
ADMISSION = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
EVERYWHERE = (
    *("clusterroles", "clusterrolebindings", "mutatingwebhookconfigurations.admissionregistration.k8s.io"),
    *(f"{kind}.admissionregistration.k8s.io" for kind in ADMISSION),
    *(f"{kind.removesuffix('ies')}ybindings.admissionregistration.k8s.io" for kind in ADMISSION),
)
CLOSED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.fixture(scope="module")
def place(lab: KubernetesLab) -> Iterator[Release]:
    """A namespace for the release, and the images that it needs."""
    if not Path(lab.folder.program("helm")).exists():
        pytest.skip("there is no Helm; get it with: make helm")
    lab.provide_services()
    made = Release(lab, f"chart-{secrets.token_hex(3)}")
    made.make_namespaces()
    try:
        yield made
    finally:
        made.helm("uninstall", "trial", "--ignore-not-found")
        made.remove_namespaces()


@pytest.fixture
def release(place: Release) -> Release:
    """The chart, installed with nothing but values, and ready; a test may have removed it, because tests have no order."""
    if "trial" not in place.helm("list", "--short").split():
        place.clear()
        place.helm("install", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=place.values)
    return place


def test_every_account_may_do_what_it_needs_and_nothing_else(release: Release, figures: Figures) -> None:
    """The API server's own answer is the table, in the namespace, and in a further one without what makes objects.

    In another one, there is only what concerns the whole cluster.
    """
    accounts = [each["metadata"]["name"] for each in release.items("serviceaccounts", OURS)]
    excess, missing = [], []
    for account in accounts:
        needed = RIGHTS.get(account.removeprefix(f"{NAME}-"), set())
        of_users = needed - MAKES
        places = (release.namespace, release.team, "default")
        here, there, away = (rights_of(release, account, place) for place in places)
        missing += [(account, *one) for one in sorted((needed - here) | (of_users - there))]
        excess += [(account, *one) for one in sorted((here - needed) | (there - of_users))]
        excess += [(account, *one) for one in sorted(away) if not one[1].startswith("nodes")]
    figures.count(rbac_excess=len(excess))

    assert len(accounts) == 12
    assert (missing, excess) == ([], [])


def test_helm_test_passes(release: Release) -> None:
    """Topics are as they should be, the log can be read, and the gateway answers."""
    assert "Phase:          Succeeded" in release.helm("test", "trial", f"--timeout={TIMEOUT_S}s")


def test_a_gang_starts_whole_gives_way_and_goes_on(release: Release, figures: Figures) -> None:
    """No replica has a pod before there is room for all; an urgent job has it suspended, and it loses no step by that."""
    release.submit("before", cpu="0.8")
    eventually(lambda: "before" in release.jobs_pods(), "a job runs")
    release.submit("together", "--replicas", "3", cpu="0.4")
    release.submit("small")
    eventually(lambda: "small" in release.jobs_pods(), "a job runs that was submitted after the gang")
    waiting = [each for each in release.items("pods", "steepest.dev/managed=true") if job_of(each) == "together"]
    release.let_finish("before")
    begun = eventually(lambda: _whole(release, "1"), "the gang runs")
    jobs = [each["metadata"]["uid"] for each in release.jobs("together")]
    eventually(lambda: release.reported("together", 1), "the gang makes steps")

    release.submit("urgent", "--priority", "urgent", cpu="1")
    eventually(lambda: "urgent" in release.jobs_pods(), "the urgent job runs")
    suspended = [each["spec"]["suspend"] for each in release.jobs("together")]
    beside = release.jobs_pods("together")
    saved, done = max(release.saved("together")), release.reported("together", 1)[-1]
    release.let_finish("urgent")
    eventually(lambda: _whole(release, "2"), "the gang goes on")
    eventually(lambda: release.reported("together", 2), "the gang makes steps again")
    restored, first = release.restored("together"), release.reported("together", 2)[0]
    reasons = {"PlacementPlanned", "Placed", "TransitionPlanned", "Suspended"}
    said = events_once_there(release.lab, jobs[0], reasons, release.namespace)
    name = release.jobs("together")[0]["metadata"]["name"]
    described = release.kubectl("describe", "job", name)
    release.let_finish("together", "small")
    ended = eventually(lambda: _succeeded(release, "together", "small"), "all have finished")
    failed = sum(each["status"].get("failed", 0) for each in ended)
    twice = release.doubled("before", "small", "together", "urgent")
    figures.count(status_failed=failed, doubled=len(twice))

    assert waiting == []
    assert {each["spec"]["nodeName"] for each in begun.values()} == {"node-a"}
    assert (suspended, beside) == ([True] * 3, {})
    assert (done, restored, first) == (saved, saved, saved + 1)
    assert [each["metadata"]["uid"] for each in ended if job_of(each) == "together"] == jobs
    assert "urgent" in next(each["message"] for each in said if each["reason"] == "TransitionPlanned")
    assert str(saved) in next(each["message"] for each in said if each["reason"] == "Suspended")
    assert "TransitionPlanned" in described
    assert (failed, twice) == (0, [])


def test_no_fault_loses_or_doubles_a_job(release: Release, figures: Figures) -> None:
    """The migrator is killed in a move, a job's pod is deleted by hand, the broker is killed: all jobs go on, once each."""
    names = ("first", "second", "third")
    for name in names:
        release.submit(name, "--retries", "1")
    migrator, broker = release.process_of("migrator", "steepest-migrator"), release.process_of("kafka", "kafka.Kafka")
    moving = eventually(lambda: next(filter(release.is_asked_to_save, names), ""), "a job moves")
    os.kill(migrator, signal.SIGKILL)
    eventually(lambda: _on_other_node(release, moving), "it is moved all the same", within_s=CONTINUES_S)
    assert release.restored(moving) in release.saved(moving)

    deleted = next(name for name in names if name != moving)
    gone = eventually(lambda: release.jobs_pods().get(deleted), "a job runs")
    release.kubectl("delete", "pod", gone["metadata"]["name"], "--wait=false")
    eventually(lambda: _in_other_pod(release, deleted, gone), "it runs in another pod", within_s=CONTINUES_S)
    assert release.restored(deleted) in release.saved(deleted)

    os.kill(broker, signal.SIGKILL)
    _await_steps(release, *names)
    eventually(lambda: release.has_restarted("kafka"), "the broker runs again", within_s=CONTINUES_S)
    release.submit("fourth")
    eventually(lambda: "fourth" in release.jobs_pods(), "a new job runs", within_s=CONTINUES_S)
    release.let_finish(*names, "fourth")
    ended = eventually(lambda: _succeeded(release, *names, "fourth"), "all jobs have finished")
    twice = release.doubled(*names, "fourth")
    figures.count(lost=len({*names, "fourth"} - {job_of(each) for each in ended}), doubled=len(twice))

    assert sorted(map(job_of, ended)) == sorted((*names, "fourth"))
    assert twice == []


@pytest.mark.end_to_end
def test_jobs_move_are_resized_and_outlive_the_release(release: Release, figures: Figures, tmp_path: Path) -> None:
    """A job continues on another node at its saved step, a limit is in the control group, and nothing ends with Steepest.

    A recording that the release makes on the volume is the same when it is decided here.
    """
    with LimitSampler() as limits:
        for name in JOBS:
            release.submit(name)
        eventually(lambda: _all_run(release), "all jobs run")
        moved = eventually(lambda: _moved(release), "a job is on another node")
        eventually(lambda: any(min(seen) < LARGEST_M for seen in limits.seen.values()), "a job has a lower limit")

    assert {LARGEST_M} < set().union(*limits.seen.values())
    assert release.restored(moved) in release.saved(moved)

    changed = {**release.values, "heartbeatMs": 700, "record": {"enabled": True}}
    release.helm("upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=changed)
    recorded = ("job", "-l", f"{OURS},app.kubernetes.io/component=record")
    release.kubectl("wait", "--for=condition=Complete", *recorded, f"--timeout={PATIENCE_S:g}s")
    shutil.copytree(release.volume / f"{NAME}-recording", tmp_path / "recording")
    for command in ("replay", "check"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "recording")])
        assert done.exit_code == 0, done.output

    release.helm("rollback", "trial", "1", "--wait", f"--timeout={TIMEOUT_S}s")
    asked = list(release.asked_of_the_api_server())  # before its rights go, which is before its pods end
    refused = [(one["user"]["username"], one["requestURI"]) for one in asked if one["responseStatus"]["code"] == 403]
    release.helm("uninstall", "trial", "--wait", f"--timeout={TIMEOUT_S}s")
    eventually(lambda: not _left(release), "nothing of the release is left", lambda: _left(release))
    alone = _all_run(release)
    assert alone, release.kubectl("get", "pods,jobs", "-o", "wide")
    uids = {name: pod["metadata"]["uid"] for name, pod in alone.items()}
    _await_steps(release, *JOBS)
    release.let_finish(*JOBS)
    ended = eventually(lambda: _succeeded(release, *JOBS), "all jobs have finished")

    failed = sum(each["status"].get("failed", 0) for each in ended)
    twice = release.doubled(*JOBS)
    figures.count(status_failed=failed, doubled=len(twice), orphans=len(_left(release)))
    assert (failed, twice, refused) == (0, [], [])
    assert {pod["metadata"]["uid"] for pod in release.items("pods", "steepest.dev/managed=true")} >= {*uids.values()}
    resized = [one for one in asked if one["objectRef"].get("subresource") == "resize"]
    assert {_who(one) for one in resized if job_of({"metadata": one["objectRef"]}) in JOBS} == {"resizer"}
    assert {_who(one) for one in asked if one["objectRef"]["resource"] == "jobs"} == {"migrator"}


def test_a_recording_on_a_schedule_goes_on_where_it_ended(release: Release, tmp_path: Path) -> None:
    """Each Job of the CronJob adds what the log got since the one before; the whole replays equal here."""
    kept = {"enabled": True, "schedule": "0 0 1 1 *", "folder": "kept"}
    release.helm(
        "upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values={**release.values, "record": kept}
    )
    try:
        submitted = []
        for name in ("noted-1", "noted-2"):
            release.submit(name)
            release.kubectl("create", "job", f"record-{name}", f"--from=cronjob/{NAME}-record")
            release.kubectl("wait", "--for=condition=Complete", f"job/record-{name}", f"--timeout={PATIENCE_S:g}s")
            submitted.append(_submitted(release.volume / "kept"))
            release.steepest("cancel", name)
    finally:
        release.helm("upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=release.values)
    shutil.copytree(release.volume / "kept", tmp_path / "recording")
    for command in ("replay", "check"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "recording")])
        assert done.exit_code == 0, done.output

    assert "noted-1" in submitted[0]
    assert "noted-2" not in submitted[0]
    assert submitted[1][: len(submitted[0])] == submitted[0]
    assert submitted[1][-1] == "noted-2"


def _submitted(recording: Path) -> list[str]:
    """The jobs of a recording, in the order of their submissions."""
    records = (json.loads(line)["value"] for line in (recording / "cluster" / "0.jsonl").read_text().splitlines())
    return [value["job"] for value in records if value.get("type") == "JobSubmitted"]


def test_a_user_reaches_the_release_from_outside(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the chart's Role and the gateway's token, and no port-forward: a submission, the jobs, and what a job prints."""
    account = f"{release.namespace}:visitor"
    release.kubectl("create", "serviceaccount", "visitor")
    release.kubectl("create", "rolebinding", "visitor", f"--role={NAME}-users", f"--serviceaccount={account}")
    credential = release.kubectl("create", "token", "visitor").strip()
    tokens = release.kubectl("get", "secret", f"{NAME}-gateway", "-o", "jsonpath={.data.tokens}")
    kubeconfig = release.lab.folder.write_kubeconfig(tmp_path / "kubeconfig", "visitor", credential)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    by_role = dict(line.split() for line in base64.b64decode(tokens).decode().splitlines())
    monkeypatch.setenv("STEEPEST_CLIENT_TOKEN", by_role["operate"])
    monkeypatch.setenv("STEEPEST_CLIENT_SERVER", f"kube:/{release.namespace}")

    def call(*arguments: str) -> list[Any]:
        done = CliRunner().invoke(main, [arguments[0], "--json", *arguments[1:]])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    program = "import time; print('hello', flush=True); time.sleep(3600)"
    size = ("--cpu", "0.1", "--memory", "64Mi")
    (submitted,) = call("submit", "--name", "outside", *size, "--", "python3", "-c", program)
    printed = eventually(lambda: call("logs", "outside"), "its output is read from the volume")
    (rows,) = call("jobs")
    call("cancel", "outside")
    eventually(lambda: "outside" not in release.jobs_pods(), "it has stopped")

    assert submitted["state"] == "admitted"
    assert printed == [{"incarnation": 1, "line": "hello"}]
    assert "outside" in [row["job"] for row in rows]


def test_a_job_that_a_user_makes_is_scheduled(release: Release, figures: Figures) -> None:
    """The API server gates it, the release gives it a place, and it finishes as it would alone; in both namespaces."""
    own = _await_gates(release)
    _run_users_job(release, figures)
    teams = _await_gates(release, release.team)
    _run_users_job(release, figures, release.team)

    assert teams == own


def test_where_the_server_has_no_policy_a_webhook_gates_users_jobs(
    release: Release, figures: Figures, trainer: str, training_operator: str
) -> None:
    """It makes of a Job what the policy makes of it, and only of one with the label; likewise of other kinds."""
    by_policy = _await_gates(release)
    others = [] if trainer or training_operator else [_await_others(release)]
    try:
        asked = {**release.values, "optIn": {**release.values["optIn"], "by": "webhook"}}
        release.helm("upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=asked)
        eventually(lambda: not release.items("mutatingadmissionpolicies", OURS), "the policy is gone")
        by_webhook = _await_gates(release)
        others += others and [_await_others(release)]
        other = _users_job(release, "--dry-run=server", labels={})
        _run_users_job(release, figures)
    finally:
        release.helm("upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=release.values)

    assert by_webhook == by_policy
    assert others[:1] == others[1:]
    assert other["spec"]["suspend"] is False
    assert "schedulingGates" not in other["spec"]["template"]["spec"]


def _await_gates(release: Release, namespace: str = "") -> dict[str, Any]:
    """What a user's pod becomes once its Job is gated, with lists in the order of their names."""

    def gated() -> dict[str, Any] | None:
        spec = _users_job(release, "--dry-run=server", namespace=namespace)["spec"]
        return {**spec["template"]["spec"], "replaced": spec["podReplacementPolicy"]} if spec["suspend"] else None

    return _in_order(eventually(gated, "users' Jobs are gated"))


def _in_order(pod: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod, with lists in the order of their names."""
    (container,) = pod["containers"]
    container["env"].sort(key=itemgetter("name"))
    container["volumeMounts"].sort(key=itemgetter("mountPath"))
    return pod


def _await_others(release: Release) -> tuple[dict[str, Any], ...]:
    """What a user's JobSet, TrainJob and PyTorchJob say of what they make, once that will be gated."""
    release.lab.kubectl("apply", "-f", "-", content=_placed(release, runtime()))
    job_set = _await_suspended(release, users_job_set("users", opted_in=True))
    labels = [each["template"]["metadata"]["labels"] for each in job_set["replicatedJobs"]]
    train_job = _await_suspended(release, users_train_job("users", opted_in=True, nodes=2))
    (change,) = train_job["runtimePatches"]
    assert labels == [{SCHEDULE: "part", "steepest.dev/queue": "images"}] * len(job_set["replicatedJobs"])
    assert change["trainingRuntimeSpec"]["template"]["metadata"]["labels"] == labels[0]
    replicas = _await_suspended(release, users_pytorch_job("users", opted_in=True, workers=2))["pytorchReplicaSpecs"]
    pods = {name: _in_order(each["template"]["spec"]) for name, each in replicas.items()}
    assert {pod["schedulingGates"][0]["name"] for pod in pods.values()} == {"steepest.dev/placement"}
    return job_set, {**change, "time": ""}, pods


def _await_suspended(release: Release, asked: dict[str, Any]) -> dict[str, Any]:
    """The spec of an object, once one that is created is suspended."""

    def suspended() -> dict[str, Any] | None:
        try:
            answer = release.lab.kubectl(
                "create", "--dry-run=server", "-f", "-", "-o", "json", content=_placed(release, asked)
            )
        except ClusterError:
            return None  # the API server takes a while to know a kind that is new to it
        found = json.loads(answer)
        spec: dict[str, Any] = found["spec"]
        return spec if is_suspended(OTHERS[asked["kind"]], found) else None

    return eventually(suspended, f"a user's {asked['kind']} is gated")


def _placed(release: Release, asked: dict[str, Any]) -> dict[str, Any]:
    """An object in the release's namespace, in a queue of its own."""
    labels = {**asked["metadata"].get("labels", {}), "steepest.dev/queue": "images"}
    return {**asked, "metadata": {**asked["metadata"], "namespace": release.namespace, "labels": labels}}


def _run_users_job(release: Release, figures: Figures, namespace: str = "") -> None:
    """A user's Job runs on a node of the release's choice, and finishes; ``namespace``: empty for the release's own."""
    made, where = _users_job(release, namespace=namespace), ("-n", namespace or release.namespace)
    try:
        running = eventually(
            lambda: [one for one in release.items("pods", "job-name=users", namespace) if _runs(one)], "it runs"
        )
        folder = release.folder(f"users.{made['metadata']['uid'][:8]}")
        hello = folder / "0" / "1" / "control" / "hello.json"
        eventually(hello.exists, "it finds its folders")
        (folder / "checkpoints" / "enough").touch()
        release.lab.kubectl(*where, "wait", "--for=condition=Complete", "job/users", f"--timeout={PATIENCE_S:g}s")
        (ended,) = release.items("jobs", "steepest.dev/schedule=true", namespace)
    finally:
        release.lab.kubectl(*where, "delete", "job", "users", "--ignore-not-found")
    figures.count(status_failed=ended["status"].get("failed", 0))
    changed = [one for one in release.asked_of_the_api_server() if one["objectRef"].get("name") == _pod(running[0])]

    assert made["spec"]["suspend"] is True
    assert incarnation_of(running[0]) == "1"
    assert (ended["metadata"]["uid"], ended["status"].get("failed", 0)) == (made["metadata"]["uid"], 0)
    assert {_who(one) for one in changed if one["objectRef"].get("subresource") is None} == {"migrator"}


def _users_job(
    release: Release,
    *options: str,
    labels: Mapping[str, str] = MappingProxyType({SCHEDULE: "true"}),
    namespace: str = "",
) -> dict[str, Any]:
    """What the API server makes of a Job as a user writes it, for a namespace that admits only pods that are closed."""
    source = Path(exclusive_training.__file__).read_text()
    container = {
        "name": "train",
        "image": DEMO,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", source, "/steepest/checkpoints"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": CLOSED,
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 12345, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "users", "namespace": namespace or release.namespace, "labels": dict(labels)},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    made: dict[str, Any] = json.loads(release.lab.kubectl("create", "-f", "-", "-o", "json", *options, content=job))
    return made


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _pod(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _all_run(release: Release) -> dict[str, dict[str, Any]]:
    found = release.jobs_pods()
    return found if set(found) == set(JOBS) else {}


def _whole(release: Release, incarnation: str) -> dict[str, dict[str, Any]]:
    """The pods of the gang, once all three of them run as this incarnation."""
    found = release.jobs_pods("together")
    return found if [incarnation_of(each) for each in found.values()] == [incarnation] * 3 else {}


def _on_other_node(release: Release, job: str) -> dict[str, Any] | None:
    """The pod of a job that runs where none is placed first."""
    found = release.jobs_pods().get(job)
    return found if found is not None and found["spec"]["nodeName"] == "node-b" else None


def _in_other_pod(release: Release, job: str, before: dict[str, Any]) -> dict[str, Any] | None:
    found = release.jobs_pods().get(job)
    return found if found is not None and found["metadata"]["uid"] != before["metadata"]["uid"] else None


def _moved(release: Release) -> str:
    """A job that runs on the node where none is placed first, in another incarnation than the first one."""
    found = _all_run(release).items()
    return next((name for name, pod in found if pod["spec"]["nodeName"] == "node-b" and incarnation_of(pod) != "1"), "")


def _left(release: Release) -> list[str]:
    """The objects of the release that are there."""
    kinds = ["deployments", "statefulsets", "pods", "services", "configmaps", "secrets", "serviceaccounts", "jobs"]
    kinds += ["roles", "rolebindings", "networkpolicies", "poddisruptionbudgets", "persistentvolumeclaims"]
    names = release.kubectl("get", ",".join(kinds), "-l", OURS, "-o", "name").split()
    everywhere = release.lab.kubectl("get", ",".join(EVERYWHERE), "-l", OURS, "-o", "name").split()
    return names + [name for name in everywhere if f"/{release.namespace}-" in name]


def _succeeded(release: Release, *names: str) -> list[dict[str, Any]]:
    """The Jobs of these jobs, once each of them has succeeded."""
    found = release.jobs(*names)
    done = {job_of(each) for each in found} == set(names) and all(each["status"].get("succeeded") for each in found)
    return found if done else []


def _await_steps(release: Release, *names: str) -> None:
    """Wait until each of these jobs has made steps from now on."""
    before = {name: _reports(release, name) for name in names}
    eventually(lambda: all(_reports(release, name) != before[name] for name in names), "the jobs make steps")


def _reports(release: Release, job: str) -> tuple[str, int]:
    """The job's newest incarnation, and how much it has reported, in bytes."""
    path = release.control(job) / "reports.jsonl"
    return str(path), path.stat().st_size if path.exists() else 0


def _who(asked: dict[str, Any]) -> str:
    return str(asked["user"]["username"]).rpartition(f"{NAME}-")[2]
