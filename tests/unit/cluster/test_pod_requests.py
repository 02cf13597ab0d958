"""What a pod requests: as the scheduler has it, for the pods of others and for the templates of users' objects alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, PYTORCH_JOB
from steepest.cluster.kubernetes.kinds.users_object import UsersObject
from steepest.cluster.kubernetes.nodes.selected_nodes import requested
from steepest.cluster.kubernetes.objects import PodSpec
from steepest.cluster.kubernetes.users_jobs import submission
from steepest.errors import InputError
from steepest.events.common import Resources

GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": ("m", 1000), "memory": ("Mi", 1), GPU: ("", 1)}
"""By resource, the suffix of small amounts, and what a whole number is worth in them."""


def held(spec: dict[str, Any]) -> Resources:
    """What a pod with this spec holds."""
    return requested(msgspec.convert(spec, PodSpec))


# --- any pod, beside a plain re-statement of the rules ------------------------------------------------------------------

_QUANTITIES = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 4) | st.integers(0, 4000).map("{}m".format),
        "memory": st.integers(0, 4000).map("{}Mi".format),
        GPU: st.integers(0, 8) | st.integers(0, 8).map(str),
    },
)
_CAPS = st.fixed_dictionaries({}, optional={"requests": _QUANTITIES, "limits": _QUANTITIES})
_CONTAINERS = st.lists(st.fixed_dictionaries({"resources": _CAPS}), max_size=3)
_INIT_CONTAINERS = st.lists(
    st.fixed_dictionaries({"resources": _CAPS}, optional={"restartPolicy": st.sampled_from(["Always", "Never"])}),
    max_size=4,
)
_PODS = st.fixed_dictionaries(
    {"containers": _CONTAINERS},
    optional={"initContainers": _INIT_CONTAINERS, "resources": _CAPS, "overhead": _QUANTITIES},
)


def _amount(quantity: str | int, resource: str) -> int:
    suffix, whole = AMOUNTS[resource]
    if isinstance(quantity, str) and suffix:
        return int(quantity.removesuffix(suffix))
    return int(quantity) * whole


def _defaulted(caps: dict[str, Any], resource: str) -> int | None:
    """A request; where it is missing, the limit."""
    for said in ("requests", "limits"):
        if resource in caps.get(said, {}):
            return _amount(caps[said][resource], resource)
    return None


def reserved(spec: dict[str, Any], resource: str) -> int:
    """How the scheduler works it out, moment by moment: each init container as it runs, then all that runs on."""
    asked = [_defaulted(one["resources"], resource) for one in spec["containers"]]
    moments, lasting = [], 0
    for one in spec.get("initContainers", []):
        share = _defaulted(one["resources"], resource)
        asked.append(share)
        if one.get("restartPolicy") == "Always":
            lasting += share or 0
            moments.append(lasting)
        else:
            moments.append(lasting + (share or 0))
    moments.append(lasting + sum(_defaulted(one["resources"], resource) or 0 for one in spec["containers"]))
    found = max(moments)
    whole = spec.get("resources", {})
    if resource != GPU:
        if resource in whole.get("requests", {}):
            found = _amount(whole["requests"][resource], resource)
        elif resource in whole.get("limits", {}) and all(share is None for share in asked):
            found = _amount(whole["limits"][resource], resource)
    overhead = spec.get("overhead", {})
    return found + (_amount(overhead[resource], resource) if resource in overhead else 0)


@given(_PODS)
def test_a_pod_holds_what_the_scheduler_reserves(spec: dict[str, Any]) -> None:
    """For any containers, sidecars, init containers, requests of the pod as a whole, and overhead."""
    expected = {resource: reserved(spec, resource) for resource in AMOUNTS}

    assert held(spec) == Resources(cpu_m=expected["cpu"], memory_mib=expected["memory"], gpus=expected[GPU])


def test_what_is_requested_is_rounded_up() -> None:
    """A part of a MiB, or of a millicore, is not left to others."""
    spec = {"containers": [{"resources": {"requests": {"cpu": "0.0001", "memory": "1000M"}}}]}

    assert held(spec) == Resources(cpu_m=1, memory_mib=954)


# --- users' objects as people write them --------------------------------------------------------------------------------

TRAIN = {"name": "fit", "image": "registry.test/fit:1", "command": ["python3", "fit.py"]}


def asked(kind: Kind, pod_spec: dict[str, Any]) -> Resources:
    """What the first pod of a user's object requests whose template has this spec."""
    template = {"spec": {"restartPolicy": "Never", **pod_spec}}
    spec: dict[str, Any] = {"template": template}
    if kind is PYTORCH_JOB:
        one = {"replicas": 1, "restartPolicy": "Never", "template": template}
        spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": one}}
    body = {"metadata": {"name": "fit", "uid": "0a1b2c3d-0000-4000-8000-000000000000"}, "spec": spec}
    return submission(kind, msgspec.json.decode(msgspec.json.encode(body), type=UsersObject)).requests


@pytest.mark.parametrize("kind", [JOB, PYTORCH_JOB], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("pod_spec", "wanted"),
    [
        pytest.param(
            {"containers": [{**TRAIN, "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {GPU: "2"}}}]},
            Resources(cpu_m=2000, memory_mib=8192, gpus=2),
            id="GPUs in the limits alone",
        ),
        pytest.param(
            {"containers": [{**TRAIN, "resources": {"limits": {GPU: 1, "cpu": 2.5, "memory": 1 << 30}}}]},
            Resources(cpu_m=2500, memory_mib=1024, gpus=1),
            id="plain numbers",
        ),
        pytest.param(
            {
                "initContainers": [{"name": "unpack", "resources": {"requests": {"cpu": "4", "memory": "16Gi"}}}],
                "containers": [{**TRAIN, "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}],
            },
            Resources(cpu_m=4000, memory_mib=16384),
            id="a larger init container",
        ),
        pytest.param(
            {
                "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}},
                    {"name": "unpack", "resources": {"requests": {"cpu": 2}}},
                ],
                "containers": [{**TRAIN, "resources": {"requests": {"cpu": 1}}}],
            },
            Resources(cpu_m=2500),
            id="a sidecar before an init container",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": 3}}, "containers": [TRAIN], "overhead": {"cpu": "250m"}},
            Resources(cpu_m=3250),
            id="the pod as a whole",
        ),
    ],
)
def test_what_a_user_writes_is_what_is_reserved(kind: Kind, pod_spec: dict[str, Any], wanted: Resources) -> None:
    """The same rules hold before the API server has filled anything in, and in kinds of which it fills in nothing."""
    assert asked(kind, pod_spec) == wanted


def test_devices_that_are_claimed_leave_an_object_alone() -> None:
    """No account is kept of them: it would be placed as if it needed none."""
    pod_spec = {
        "resourceClaims": [{"name": "card", "resourceClaimTemplateName": "one-card"}],
        "containers": [{**TRAIN, "resources": {"claims": [{"name": "card"}]}}],
    }
    with pytest.raises(InputError, match="resourceClaims") as left:
        asked(JOB, pod_spec)

    assert "leave resourceClaims out" in left.value.hint
