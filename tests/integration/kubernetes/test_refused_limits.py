"""A limit that a real node cannot grant is refused, and nothing has changed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest
from tests.integration.kubernetes.nodes_harness import KubernetesHarness
from tests.integration.kubernetes.test_selected_nodes import pod_of_others

from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import Resources
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NODES

REQUESTED_M, CAP_M = 500, 100
OTHERS = (3, 300)
"""How many pods of others come, and what each requests: the second node has 1,100m for pods."""


@pytest.fixture
def others(lab: KubernetesLab) -> Iterator[list[str]]:
    """Names of pods of another party; those that were made are removed."""
    names = [f"beside-{secrets.token_hex(4)}" for _ in range(OTHERS[0])]
    yield names
    lab.kubectl("-n", "default", "delete", "pod", *names, "--ignore-not-found", "--grace-period=0", "--force")


@pytest.mark.timeout(200)
async def test_a_request_that_others_have_taken_the_room_of_is_refused(
    harness: KubernetesHarness, others: list[str]
) -> None:
    """A cap lowers the job's request; once others hold the room that it left, the node defers to raise it again."""
    replica, node = ReplicaId(f"capped-{secrets.token_hex(4)}"), NODES[1].name
    spec = ReplicaSpec(
        command=("sleep", "3600"), requests=Resources(cpu_m=REQUESTED_M), cpu_limit_m=REQUESTED_M, image=DEMO
    )
    await harness.cluster.start(replica, 1, node, spec, None)
    await harness.cluster.limit(replica, 1, CAP_M)
    for name in others:
        harness.lab.kubectl("apply", "-f", "-", content=pod_of_others(name))
        harness.lab.kubectl("-n", "default", "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    with pytest.raises(RefusedError) as refused:
        await harness.cluster.limit(replica, 1, REQUESTED_M)
    pod = json.loads(harness.kubectl("get", "pod", harness.pod(replica).name, "-o", "json"))
    (container,) = pod["spec"]["containers"]
    (status,) = pod["status"]["containerStatuses"]

    assert refused.value.code == "limit-refused"
    assert "Deferred" in str(refused.value)
    for resources in (container["resources"], status["resources"]):
        assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == (f"{CAP_M}m", f"{CAP_M}m")
    assert status["restartCount"] == 0
