"""Who may make pods in a further namespace reaches no other job's files: the policy on a real API server, without nodes."""

from __future__ import annotations

import copy
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.kubernetes.bare_control_plane import NAMESPACE, BareControlPlane, running_control_plane
from tests.integration.kubernetes.opted_in import DEPLOY, OPEN, users_job

from steepest.cluster.kubernetes.manifest import VARIABLE

pytestmark = pytest.mark.timeout(300)
USER = "--as=visitor"
STEEPEST = "--as=system:serviceaccount:steepest:steepest"
JOB = f"{VARIABLE}STEEPEST_JOB"
EFFECT_S = 60.0
Object = dict[str, Any]


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareControlPlane]:
    """An API server with both policies, whose namespace is a further one; a user and Steepest may do all there."""
    with running_control_plane(tmp_path_factory.mktemp("bare")) as made:
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        metadata = {"name": "all", "namespace": NAMESPACE}
        group = "rbac.authorization.k8s.io"
        users = [{"apiGroup": group, "kind": "User", "name": each.removeprefix("--as=")} for each in (USER, STEEPEST)]
        made.apply(
            {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "all"},
                "subjects": users,
            },
        )
        made.kubectl("apply", "-f", str(DEPLOY / "opt-in.yaml"), "-f", str(DEPLOY / "opt-in-namespace.yaml"))
        made.kubectl("label", "namespace", NAMESPACE, f"{OPEN}=true")
        deadline = time.monotonic() + EFFECT_S
        while _is_taken(made, whole_volume()) or not _job(made)["spec"].get("suspend"):
            assert time.monotonic() < deadline, "the policies have no effect"
            time.sleep(0.5)
        yield made


def _is_taken(control: BareControlPlane, pod: Object) -> bool:
    try:
        control.kubectl(USER, "create", "--dry-run=server", "-f", "-", content=pod)
    except AssertionError:
        return False
    return True


def _job(control: BareControlPlane) -> Object:
    job = users_job("mine", opted_in=True)
    job["metadata"]["namespace"] = NAMESPACE
    made: Object = json.loads(control.kubectl(USER, "create", "--dry-run=server", "-o", "json", "-f", "-", content=job))
    return made


def pod(spec: Object, **metadata: Any) -> Object:
    """A pod with a name of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"mine-{secrets.token_hex(4)}", "namespace": NAMESPACE, **metadata},
        "spec": spec,
    }


def whole_volume() -> Object:
    """A pod that mounts all of it."""
    mount = {"name": "all", "mountPath": "/all"}
    container = {"name": "curious", "image": "i", "volumeMounts": [mount]}
    return pod({"volumes": [_claim("all")], "containers": [container]})


def _claim(name: str) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": "steepest"}}


@pytest.fixture
def gated(control: BareControlPlane) -> Object:
    """The spec of a pod that the policies have made of a user's Job."""
    spec: Object = _job(control)["spec"]["template"]["spec"]
    return spec


def test_the_pod_of_an_opted_in_job_is_taken(control: BareControlPlane, gated: Object) -> None:
    """Its mounts are those that the other policy has put in; a pod without the volume is not evaluated."""
    plain = {"containers": [{"name": "train", "image": "i"}]}
    for each in (pod(gated), pod(plain), pod(plain, annotations={JOB: "another"})):
        assert control.kubectl(USER, "create", "--dry-run=server", "-f", "-", content=each)


def _without_gate(spec: Object) -> None:
    del spec["schedulingGates"]


def _of_another_path(spec: Object) -> None:
    spec["containers"][0]["volumeMounts"][0] = {
        "name": "steepest",
        "mountPath": "/theirs",
        "subPath": "steepest/cluster/jobs/another/checkpoints",
    }


def _of_the_whole(spec: Object) -> None:
    spec["containers"][0]["volumeMounts"].append({"name": "steepest", "mountPath": "/all"})


def _by_another_volume(spec: Object) -> None:
    spec["volumes"].append(_claim("again"))
    spec["containers"][0]["volumeMounts"].append({"name": "again", "mountPath": "/all"})


def _in_an_init_container(spec: Object) -> None:
    mount = {"name": "steepest", "mountPath": "/all"}
    spec["initContainers"] = [{"name": "first", "image": "i", "volumeMounts": [mount]}]


def _of_a_named_job(spec: Object) -> None:
    spec["containers"][0]["env"].append({"name": "STEEPEST_JOB", "value": "another"})


def _of_a_job_of_a_file(spec: Object) -> None:
    container = spec["containers"][0]
    container["env"] = [each for each in container["env"] if each["name"] != "STEEPEST_JOB"]
    container["envFrom"] = [{"configMapRef": {"name": "another"}}]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_without_gate, "for pods that wait for it"),
        (_of_another_path, "only its own job's folders"),
        (_of_the_whole, "only its own job's folders"),
        (_by_another_volume, "only its own job's folders"),
        (_in_an_init_container, "only its own job's folders"),
        (_of_a_named_job, "only Steepest says"),
        (_of_a_job_of_a_file, "only Steepest says"),
    ],
)
def test_a_pod_that_would_mount_more_is_refused(
    control: BareControlPlane, gated: Object, change: Callable[[Object], None], why: str
) -> None:
    """Also where its user may do everything in the namespace."""
    spec = copy.deepcopy(gated)
    change(spec)
    with pytest.raises(AssertionError, match=why):
        control.kubectl(USER, "create", "--dry-run=server", "-f", "-", content=pod(spec))


FREE: Object = {
    "configMap": {"name": "x"},
    "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]},
    "emptyDir": {},
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        }
    },
    "persistentVolumeClaim": {"claimName": "of-the-team"},
    "projected": {"sources": [{"configMap": {"name": "x"}}]},
    "secret": {"secretName": "x"},
}
"""Volumes that hold nothing of others, each as the API server wants it."""

OWN_STORAGE: Object = {
    "awsElasticBlockStore": {"volumeID": "x"},
    "azureDisk": {"diskName": "x", "diskURI": "https://blob/x"},
    "azureFile": {"secretName": "x", "shareName": "x"},
    "cephfs": {"monitors": ["m"], "path": "/"},
    "cinder": {"volumeID": "x"},
    "csi": {"driver": "nfs.csi.k8s.io"},
    "fc": {"targetWWNs": ["x"], "lun": 1},
    "flexVolume": {"driver": "example/nfs"},
    "flocker": {"datasetName": "x"},
    "gcePersistentDisk": {"pdName": "x"},
    "gitRepo": {"repository": "https://x"},
    "glusterfs": {"endpoints": "x", "path": "x"},
    "hostPath": {"path": "/var/lib/kubelet/pods"},
    "image": {"reference": "x"},
    "iscsi": {"targetPortal": "127.0.0.1", "iqn": "iqn.2015-02.example.com:x", "lun": 0},
    "nfs": {"server": "nfs.example", "path": "/exports/steepest"},
    "photonPersistentDisk": {"pdID": "x"},
    "portworxVolume": {"volumeID": "x"},
    "quobyte": {"registry": "a:1", "volume": "x"},
    "rbd": {"monitors": ["m"], "image": "x"},
    "scaleIO": {"gateway": "https://x", "system": "x", "secretRef": {"name": "x"}, "volumeName": "x"},
    "storageos": {"volumeName": "x"},
    "vsphereVolume": {"volumePath": "x"},
}
"""Volumes whose pod says where the storage is: it could be that of all jobs."""


def test_a_pod_mounts_no_storage_that_it_names_itself(control: BareControlPlane) -> None:
    """Every kind of volume that this API server knows is one or the other: a new one is refused until it is looked at."""
    schema = json.loads(control.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"]["schemas"]
    known = schema["io.k8s.api.core.v1.Volume"]["properties"].keys() - {"name"}
    assert known == FREE.keys() | OWN_STORAGE.keys()
    container = {"name": "curious", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    refusals = {}
    for kind, source in {**FREE, **OWN_STORAGE}.items():
        asked = pod({"volumes": [{"name": "v", kind: source}], "containers": [container]})
        try:
            control.kubectl(USER, "create", "--dry-run=server", "-f", "-", content=asked)
        except AssertionError as error:
            refusals[kind] = "volumes here are of" in str(error)

    assert refusals == dict.fromkeys(OWN_STORAGE, True)


def test_only_steepest_writes_which_job_a_pod_is_of(control: BareControlPlane, gated: Object) -> None:
    """Not when the pod is made, while it waits, nor between its place and its start; what else a user writes is free."""
    with pytest.raises(AssertionError, match="only Steepest writes"):
        control.kubectl(USER, "create", "-f", "-", content=pod(gated, annotations={JOB: "another"}))
    made = pod(gated)
    name = made["metadata"]["name"]
    control.kubectl(USER, "create", "-f", "-", content=made)
    write = ("annotate", "pod", name, "--overwrite")
    with pytest.raises(AssertionError, match="only Steepest writes"):
        control.kubectl(USER, *write, f"{JOB}=another")
    let_go = {
        "metadata": {"annotations": {JOB: "mine.0a1b2c3d"}},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": "steepest.dev/placement"}]},
    }
    with pytest.raises(AssertionError, match="only Steepest"):
        control.kubectl(USER, "patch", "pod", name, "-p", json.dumps(let_go))
    control.kubectl(STEEPEST, "patch", "pod", name, "-p", json.dumps(let_go))
    for change in (f"{JOB}=another", f"{JOB}-"):
        with pytest.raises(AssertionError, match="only Steepest writes"):
            control.kubectl(USER, *write, change)
    control.kubectl(USER, *write, "note=free")
    with pytest.raises(AssertionError, match="only Steepest writes"):
        control.kubectl(
            *(USER, "patch", "pod", name, "--subresource=status", "--type=merge", "-p"),
            json.dumps({"metadata": {"annotations": {JOB: "another"}}}),
        )
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {JOB: "another"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    for path in ("bindings", f"pods/{name}/binding"):
        with pytest.raises(AssertionError, match="only Steepest writes"):
            control.kubectl(
                *(USER, "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/{path}", "-f", "-"), content=binding
            )
    with pytest.raises(AssertionError, match="an ephemeral container cannot mount"):
        control.kubectl(
            *(USER, "patch", "pod", name, "--subresource=ephemeralcontainers", "-p"),
            json.dumps({"spec": {"ephemeralContainers": [_ephemeral("/all")]}}),
        )
    control.kubectl(
        *(USER, "patch", "pod", name, "--subresource=ephemeralcontainers", "-p"),
        json.dumps({"spec": {"ephemeralContainers": [_ephemeral()]}}),
    )


def _ephemeral(*mounted: str) -> Object:
    mounts = [{"name": "steepest", "mountPath": each} for each in mounted]
    return {"name": "debug", "image": "i", **({"volumeMounts": mounts} if mounts else {})}
