"""JobSet's own controller in the lab, with its webhooks.

It owns how it is started and ended. It must never make a JobSet.
"""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from steepest.errors import ClusterError
from steepest.kubernetes_lab.control_plane import READY_S
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.layout import JOB_SET as NAME
from steepest.kubernetes_lab.layout import LabFolder, daemon_environment

HOST = "127.0.0.1"
"""The API server is in this machine's network, and asks its webhooks there."""

WEBHOOKS_PORT = 9443
METRICS_PORT = 8543
HEALTH_PORT = 8544

_LOOK_S = 0.2
_OF_A_JOB_SET = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


def missing(folder: LabFolder) -> str:
    """Why it cannot run here; empty where it can."""
    if Path(folder.program(NAME)).exists():
        return ""
    unserved = Path(folder.program(f"{NAME}.unserved"))
    if unserved.exists():
        return f"a module of JobSet is not served: {unserved.read_text()[-500:].strip()}"
    return f"there is no {NAME} in {folder.programs}; get it with: make jobset"


def start(lab: KubernetesLab) -> None:
    """Make the kind known to the API server, and start its controller; returns when it takes JobSets.

    Raises:
        ClusterError: The controller ends, or is not ready in time.
    """
    folder, own = lab.folder, _own(lab.folder)
    own.mkdir(parents=True, exist_ok=True)
    _certify(own)
    lab.kubectl("apply", "--server-side", "-f", folder.program(f"{NAME}-crd.yaml"))
    _until_it_works(lambda: lab.kubectl("get", "jobsets", "--all-namespaces"))
    settings = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "webhook": {"port": WEBHOOKS_PORT, "host": HOST, "certDir": str(own)},
        "metrics": {"bindAddress": f"{HOST}:{METRICS_PORT}"},
        "health": {"healthProbeBindAddress": f"{HOST}:{HEALTH_PORT}"},
        "internalCertManagement": {"enable": False},
    }
    (own / "config.json").write_bytes(msgspec.json.encode(settings))
    lab.daemons.start(
        NAME,
        [folder.program(NAME), f"--config={own}/config.json", f"--kubeconfig={folder.kubeconfig}"],
        env=daemon_environment(folder),
    )
    for each in _webhooks(folder, own):
        lab.kubectl("apply", "-f", "-", content=each)
    _wait_until_it_answers(lab)


def stop(lab: KubernetesLab) -> None:
    """End it, and remove the kind with all of its objects."""
    lab.kubectl("delete", "--ignore-not-found", "-f", folder_file(lab.folder, "crd"))
    lab.kubectl("delete", "--ignore-not-found", "-f", folder_file(lab.folder, "webhooks"))
    lab.daemons.stop(NAME)


def folder_file(folder: LabFolder, which: str) -> str:
    """A file of the objects that it needs: its ``crd``, or its ``webhooks`` as they are in a cluster of its own."""
    return folder.program(f"{NAME}-{which}.yaml")


def _own(folder: LabFolder) -> Path:
    return folder.run / NAME


def _certify(own: Path) -> None:
    if not (own / "tls.crt").exists():
        order = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=jobset"]
        order += ["-addext", f"subjectAltName=IP:{HOST}", "-keyout", f"{own}/tls.key", "-out", f"{own}/tls.crt"]
        subprocess.run(order, check=True, capture_output=True)


def _webhooks(folder: LabFolder, own: Path) -> list[dict[str, Any]]:
    """Its webhooks, as it brings them, asked at this machine. Those about pods are asked about a JobSet's pods alone."""
    authority = base64.b64encode((own / "tls.crt").read_bytes()).decode()
    found = [each for each in yaml.safe_load_all(Path(folder_file(folder, "webhooks")).read_text()) if each]
    for configuration in found:
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://{HOST}:{WEBHOOKS_PORT}{path}", "caBundle": authority}
            if "pod" in path:
                webhook["objectSelector"] = _OF_A_JOB_SET
    return found


def _wait_until_it_answers(lab: KubernetesLab) -> None:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}}
    probe = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "a", "template": template}]},
    }

    def ask() -> None:
        lab.kubectl("create", "--dry-run=server", "-f", "-", content=probe)

    _until_it_works(ask, lambda: lab.daemons.refuse_unless_runs(NAME))


def _until_it_works(act: Callable[[], object], may: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        may()
        try:
            act()
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_S)
        else:
            return
