"""TrainJobs and PyTorchJobs as users write them, and the runtime that TrainJobs name."""

from __future__ import annotations

from typing import Any

from tests.integration.kubernetes.opted_in import OPTED_IN, template, training

from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.layout import NAMESPACE

API = "trainer.kubeflow.org/v1alpha1"
RUNTIME = "torch-in-the-lab"


def runtime(name: str = RUNTIME, **job_set: Any) -> dict[str, Any]:
    """A runtime like the Trainer's own for PyTorch, which says nothing of restarts, with an image that the lab has."""
    container = {"name": "node", "image": DEMO, "imagePullPolicy": "Never"}
    pod = {"terminationGracePeriodSeconds": 10, "containers": [container]}
    ancestor = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": ancestor, "spec": {"template": {"spec": pod}}}}
    return {
        "apiVersion": API,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [job], **job_set}}},
    }


def users_train_job(name: str, *, opted_in: bool, nodes: int, named: str = RUNTIME) -> dict[str, Any]:
    """A TrainJob as a user writes it; it knows nothing of Steepest but the label."""
    command = training()["spec"]["containers"][0]["command"] if opted_in else ["sleep", "3600"]
    resources = {"requests": {"cpu": "50m"}}
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": OPTED_IN if opted_in else {}},
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": named},
            "trainer": {"command": command, "numNodes": nodes, "resourcesPerNode": resources},
        },
    }


def users_pytorch_job(name: str, *, opted_in: bool, workers: int, **replica: Any) -> dict[str, Any]:
    """A PyTorchJob as a user writes it; it knows nothing of Steepest but the label."""
    pods = training() if opted_in else template(["sleep", "3600"])
    del pods["spec"]["restartPolicy"]
    pods["spec"]["containers"][0]["name"] = "pytorch"
    # A plain number stays one in a PyTorchJob, as no server makes text of it.
    pods["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "50m"}, "limits": {"memory": 1 << 29}}
    each, types = {"restartPolicy": "Never", "template": pods, **replica}, {"Master": 1, "Worker": workers}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": OPTED_IN if opted_in else {}},
        "spec": {"pytorchReplicaSpecs": {name: {"replicas": pods, **each} for name, pods in types.items() if pods}},
    }
