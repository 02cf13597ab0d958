"""A release with a log-collector on each of two real nodes: it reads the node's own files, and minds no other node.

The witnesses are what jobs have counted themselves, the API server's own answers and objects, and the files on the volume.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.chart_release import CHART, NAME, TIMEOUT_S, VALUES, Release, eventually
from tests.integration.kubernetes.chart_rights import NODES as SEES_NODES
from tests.integration.kubernetes.chart_rights import SEES, rights_of
from tests.integration.kubernetes.pod_processes import process_in

from steepest.cluster.output_copy import MISSING
from steepest.errors import ClusterError
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab

pytestmark = pytest.mark.timeout(600)

SEES_PODS = SEES - {("get", "pods/log")}
POOLS = {"loud": "first", "quiet": "second", "brief": "second"}
UNNEEDED = ("categorizer", "gang-scheduler", "limit-planner", "node-scorer", "preemption-planner", "rebalancer")

BURST_LINES = 11_000
"""Of a kilobyte: more than a kubelet leaves in one file."""

LOUD = """
import pathlib, sys, time
folder, number = pathlib.Path(sys.argv[1]), 0
for name in ("first", "second", "enough"):
    while not (folder / name).exists():
        number += 1
        print(f"step {number} loss {1 / number}", flush=True)
        time.sleep(0.1)
    for _ in range(LINES):
        number += 1
        print(f"line {number} " + "x" * 1000)
print("the end", flush=True)
""".replace("LINES", str(BURST_LINES))


BRIEF = """
import signal, sys, time
def leave(*_):
    for number in range(1_000):
        print(f"last {number}")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("begun", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def release(lab: KubernetesLab) -> Iterator[Release]:
    """The release, of two pools with one node each, in a namespace that admits only closed pods."""
    if not Path(lab.folder.program("helm")).exists():
        pytest.skip("there is no Helm; get it with: make helm")
    lab.provide_services()
    made = Release(lab, f"agents-{secrets.token_hex(3)}")
    made.make_namespaces()
    values = {
        **VALUES,
        "optIn": {"enabled": False},
        "nodeAgent": {"enabled": True, "podLogs": f"{lab.folder.run.absolute()}/$(NODE)/logs"},
        "pools": [
            {"name": "first", "selector": "kubernetes.io/hostname=node-a"},
            {"name": "second", "selector": "kubernetes.io/hostname=node-b", "queues": ["second"]},
        ],
        "parameters": {"policy": "spread", "interval_ms": 1000},
        "services": {name: {"replicas": 0} for name in UNNEEDED},
    }
    try:
        made.helm("install", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=values)
        yield made
    finally:
        made.helm("uninstall", "trial", "--ignore-not-found")
        made.remove_namespaces()


def test_agents_may_see_pods_and_nodes_and_nothing_else(release: Release) -> None:
    """They read no log and no kubelet through the API server, and the services that act on jobs read no log either."""
    found = {part: rights_of(release, f"{NAME}-{part}", release.namespace) for part in ("log-collector", "resizer")}
    away = rights_of(release, f"{NAME}-log-collector", "default")

    assert found["log-collector"] == {*SEES_PODS, *SEES_NODES}
    assert found["resizer"] == {*SEES_PODS, *SEES_NODES, ("patch", "pods/resize")}
    assert away == {*SEES_NODES, ("list", "pods"), ("watch", "pods")}


def test_only_agents_mount_the_files_of_a_node(release: Release) -> None:
    """A pod that a user makes in the namespace does not get them, also not under the agents' account."""
    volume = {"name": "logs", "persistentVolumeClaim": {"claimName": f"{NAME}-pod-logs", "readOnly": True}}
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "curious", "namespace": release.namespace},
        "spec": {
            "serviceAccountName": f"{NAME}-log-collector",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "image": DEMO, "securityContext": secure}],
            "volumes": [volume],
        },
    }
    with pytest.raises(ClusterError, match="only the agents"):
        release.lab.kubectl("create", "-f", "-", content=pod)


def test_an_agent_that_was_away_loses_no_line_and_disturbs_no_other_node(release: Release) -> None:
    """A log that its node rotates meanwhile is copied whole; the other node's job is reported all the time."""
    source = ("--", "python3", "-c", LOUD, "/steepest/checkpoints")
    release.steepest("submit", "--name", "loud", "--cpu", "0.5", "--memory", "64Mi", *source)
    release.submit("quiet", "--queue", "second")
    eventually(lambda: set(release.jobs_pods()) == {"loud", "quiet"}, "both run")
    before = eventually(lambda: _shown(release, "quiet"), "the other node's job is measured and has a loss")
    loud = eventually(lambda: _shown(release, "loud"), "the job is measured and has a loss")
    other = _agent(release, "node-b")

    _mark(release, "first")
    eventually(lambda: _rotated(release), "the node rotates the log while the agent reads it")
    # It reads nothing from here on, and never again: a kubelet starts another one sooner or later than the node rotates.
    away = process_in(_agent(release, "node-a")["metadata"]["uid"], "steepest-log-collector")
    os.kill(away, signal.SIGSTOP)
    earlier = _rotated(release)
    _mark(release, "second")
    eventually(lambda: _rotated(release) - earlier, "the node rotates the log while the agent is away")
    during = eventually(lambda: _shown(release, "quiet"), "the other node is reported")
    os.kill(away, signal.SIGKILL)
    eventually(lambda: _restarts(_agent(release, "node-a")), "the agent is started again")
    _mark(release, "enough")
    (_folder(release, "quiet") / "checkpoints" / "enough").touch()
    eventually(
        lambda: all(each["status"].get("succeeded") for each in release.jobs("loud", "quiet")), "both have finished"
    )
    eventually(lambda: _printed(release, "loud").endswith("the end\n"), "all is copied")

    printed = _printed(release, "loud")
    numbers = [int(line.split()[1]) for line in printed.splitlines()[:-1]]
    assert MISSING.decode() not in printed
    assert numbers == list(range(1, numbers[-1] + 1))
    assert (loud["node"], before["node"]) == ("node-a", "node-b")
    assert during["step"] > before["step"]
    assert _agent(release, "node-b")["metadata"]["uid"] == other["metadata"]["uid"]
    assert {_restarts(_agent(release, "node-b"))} == {0}
    assert list(_folder(release, "quiet").glob("checkpoints/*.twice")) == []


def test_what_a_job_prints_while_it_is_stopped_is_kept(release: Release) -> None:
    """Its pod goes, and its log with it, as soon as it has ended."""
    source = ("--", "python3", "-c", BRIEF)
    release.steepest("submit", "--name", "brief", "--queue", "second", "--cpu", "0.1", "--memory", "64Mi", *source)
    wanted = "begun\n" + "".join(f"last {number}\n" for number in range(1_000))
    eventually(lambda: _printed(release, "brief") == "begun\n", "it runs")
    release.steepest("cancel", "brief", "--pool", "second")
    eventually(lambda: len(_printed(release, "brief")) >= len(wanted), "all is copied", within_s=30.0)

    assert _printed(release, "brief") == wanted


def _printed(release: Release, job: str) -> str:
    """What its only incarnation has printed, as far as it is kept."""
    outputs = list(_folder(release, job).glob("0/*/output.log"))
    assert len(outputs) <= 1
    return outputs[0].read_text() if outputs else ""


def _shown(release: Release, job: str) -> dict[str, Any] | None:
    """What is shown of a job once its loss is known, and what it uses."""
    found = json.loads(release.steepest("jobs", "--json", "--pool", POOLS[job]))
    return next((each for each in found if each["job"] == job and None not in (each["loss"], each["cpu_ms"])), None)


def _folder(release: Release, job: str) -> Path:
    """A job's folder on the volume, which is that of its pool; also of one that is over."""
    top = release.volume / NAME / ("." if POOLS[job] == "first" else f"pools/{POOLS[job]}") / "cluster"
    return found if (found := top / "jobs" / job).exists() else top / "ended" / f"{job}.1"


def _agent(release: Release, node: str) -> dict[str, Any]:
    found = release.items("pods", "app.kubernetes.io/component=log-collector")
    return next(each for each in found if each["spec"]["nodeName"] == node)


def _restarts(pod: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])


def _rotated(release: Release) -> set[str]:
    """The times at which the node has rotated the log, of what it keeps."""
    pod = release.jobs_pods()["loud"]
    logs = release.lab.folder.run / pod["spec"]["nodeName"] / "logs"
    return {path.name.removesuffix(".gz") for path in logs.glob(f"*_{pod['metadata']['uid']}/*/0.log.*")}


def _mark(release: Release, name: str) -> None:
    (_folder(release, "loud") / "checkpoints" / name).touch()
