"""The chart as Helm renders it, for its tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.kubernetes_lab.layout import default_folder

CHART = Path(__file__).parents[3] / "charts" / "steepest"
TRIAL: Mapping[str, Any] = {"jobs": {"volumeClaim": "shared"}, "kafka": {"broker": {"enabled": True}}}
"""The least that has to be said, with a broker of the release's own."""

ASKED: dict[str, Any] = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "by": "webhook"}}
TEAMS: dict[str, Any] = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "namespaces": ["team-a", "team-b"]}}

Thing = dict[str, Any]


def helm(*arguments: str, values: Mapping[str, Any] = TRIAL) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart; ``values`` are read from its standard input."""
    program = Path(default_folder().program("helm"))
    if not program.exists():
        pytest.skip(f"there is no {program}; get it with: make helm")
    order = [str(program), *arguments, "--values", "-"]
    return subprocess.run(order, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=60)


@cache
def _rendered(values: str) -> list[Thing]:
    done = helm("template", "demo", str(CHART), "--namespace", "training", values=json.loads(values))
    assert not done.returncode, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def rendered(values: Mapping[str, Any] = TRIAL) -> list[Thing]:
    """All objects of a release ``demo`` in the namespace ``training``."""
    return _rendered(json.dumps(values))


def of_kind(kind: str, values: Mapping[str, Any] = TRIAL) -> dict[str, Thing]:
    """The objects of one kind by name, without what comes before the part's name."""
    return {
        each["metadata"]["name"].removeprefix("training-").removeprefix("demo-steepest-"): each
        for each in rendered(values)
        if each["kind"] == kind
    }


def pods(values: Mapping[str, Any] = TRIAL) -> dict[str, Thing]:
    """The specs of all pods, by kind and name."""
    kinds = ("Pod", "Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet")
    made = [each for each in rendered(values) if each["kind"] in kinds]
    return {f"{each['kind']}/{each['metadata']['name']}": _pod_of(each) for each in made}


def _pod_of(made: Thing) -> Thing:
    spec: Thing = made["spec"]
    if made["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    found: Thing = spec if made["kind"] == "Pod" else spec["template"]["spec"]
    return found


def containers(pod: Thing) -> list[Thing]:
    """All containers of a pod."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def variables(container: Thing) -> dict[str, Any]:
    """The variables of a container; one from a Secret is the Secret's name and key."""
    found = {}
    for each in container.get("env", ()):
        secret = each.get("valueFrom", {}).get("secretKeyRef", {})
        found[each["name"]] = each.get("value", (secret.get("name"), secret.get("key")))
    return found
