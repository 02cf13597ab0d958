"""What a pool has of nodes that its cluster selects: what others leave. Less room counts immediately, more room later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.kubernetes.nodes.selected_nodes import LASTING_S, SelectedNodes, by_node, resources
from steepest.cluster.kubernetes.objects import ClusterNode, Pod
from steepest.events.common import Resources


def node(name: str = "n1", *, cordoned: bool = False, taint: str = "", **allocatable: Any) -> ClusterNode:
    """A node as the API server has it."""
    spec = {"unschedulable": cordoned, "taints": [{"key": "k", "effect": taint}] if taint else []}
    body = {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}
    return msgspec.convert(body, ClusterNode)


def pod(cpu: str, *, on: str | None = "n1", phase: str = "Running") -> Pod:
    """A pod that asks for CPU."""
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    body = {"metadata": {}, "spec": {"nodeName": on, "containers": containers}, "status": {"phase": phase}}
    return msgspec.convert(body, Pod)


def test_only_pods_that_are_bound_and_not_over_hold_something() -> None:
    """A finished pod and one without a node hold nothing."""
    pods = [pod("1"), pod("500m"), pod("4", phase="Succeeded"), pod("8", on=None), pod("2", on="n2")]

    assert by_node(pods) == {"n1": Resources(cpu_m=1500, replicas=2), "n2": Resources(cpu_m=2000, replicas=1)}


def test_those_that_tolerate_a_taint_have_what_others_have_without_it() -> None:
    """A cordoned node has nothing free for anyone; less counts immediately and more once it has lasted, for both."""
    now = [0.0]
    nodes = SelectedNodes("", lambda: now[0])
    held = Resources(cpu_m=500)
    some = [
        node("plain", cpu="4"),
        node("tainted", taint="NoSchedule", cpu="4"),
        node("preferred", taint="PreferNoSchedule", cpu="4"),
        node("cordoned", cordoned=True, cpu="4"),
    ]
    nodes.renew(some, {"tainted": held, "cordoned": held}, {"tainted": Resources(cpu_m=1_000)})

    assert {name: (nodes[name].cpu_m, nodes.tolerated(name).cpu_m) for name in nodes} == {
        "plain": (4_000, 4_000),
        "tainted": (500, 3_000),
        "preferred": (4_000, 4_000),
        "cordoned": (500, 500),
    }
    now[0] = 1.0
    nodes.renew([node("tainted", cpu="4")], {"tainted": held}, {})
    assert (list(nodes), nodes["tainted"].cpu_m, nodes.tolerated("tainted").cpu_m) == (["tainted"], 500, 3_000)
    now[0] += LASTING_S
    nodes.renew([node("tainted", cpu="4")], {"tainted": held}, {})
    assert (nodes["tainted"].cpu_m, nodes.tolerated("tainted").cpu_m) == (4_000, 4_000)


def test_less_counts_immediately_and_more_once_it_has_lasted() -> None:
    """Pods of others that come and go in seconds do not make a node large and small again."""
    now = [0.0]
    nodes = SelectedNodes("", lambda: now[0])
    some = [node(cpu="4", memory="8Gi")]
    seen = []
    for at_s, others_m in ((0, 0), (1, 1000), (2, 0), (LASTING_S, 0), (LASTING_S + 1, 1000), (LASTING_S + 2, 0)):
        now[0] = at_s
        nodes.renew(some, {}, {"n1": Resources(cpu_m=others_m)})
        seen.append(nodes["n1"].cpu_m)
    now[0] = 2 * LASTING_S + 2
    nodes.renew(some, {}, {})

    assert seen == [4000, 3000, 3000, 3000, 3000, 3000]
    assert nodes["n1"].cpu_m == 4000


def test_a_node_that_takes_no_pods_has_what_the_pools_own_pods_hold() -> None:
    """So that nothing new is placed there, and what runs there stays."""
    own = {"n1": Resources(cpu_m=300)}
    for closed in (node(cordoned=True, cpu="4"), node(taint="NoSchedule", cpu="4"), node(taint="NoExecute", cpu="4")):
        nodes = SelectedNodes("")
        nodes.renew([closed], own, {})
        assert nodes["n1"] == Resources(cpu_m=300)
    nodes = SelectedNodes("")
    nodes.renew([node(taint="PreferNoSchedule", cpu="4")], own, {})
    assert nodes["n1"] == Resources(cpu_m=4000)


def test_devices_of_others_are_taken_off_by_their_names() -> None:
    """GPUs and partitions alike."""
    nodes = SelectedNodes("")
    mig = "nvidia.com/mig-1g.5gb"
    all_of: dict[str, Any] = {"cpu": "8", "nvidia.com/gpu": "4", mig: "7"}
    nodes.renew([node(**all_of)], {}, {"n1": resources({"nvidia.com/gpu": "1", mig: "7"})})

    assert nodes["n1"] == Resources(cpu_m=8000, gpus=3)


@pytest.mark.parametrize(
    ("others", "own", "left"),
    [(0, 0, 110), (1, 0, 105), (40, 10, 70), (104, 0, 5), (106, 0, 0), (110, 3, 3), (200, 0, 0)],
)
def test_a_pool_has_the_pods_of_a_node_that_others_leave(others: int, own: int, left: int) -> None:
    """In steps of five; where others leave none, nothing else there is the pool's either, but for what its pods hold."""
    nodes = SelectedNodes("")
    held, taken = (Resources(cpu_m=10 * count, replicas=count) for count in (own, others))
    nodes.renew([node(cpu="64", pods="110")], {"n1": held}, {"n1": taken} if others else {})

    assert nodes["n1"].replicas == left
    assert nodes["n1"].fits(held) is (left == own)


_AMOUNTS = st.builds(Resources, cpu_m=st.integers(0, 9_000), memory_mib=st.integers(0, 9_000), gpus=st.integers(0, 9))


@given(st.text(max_size=70), _AMOUNTS, _AMOUNTS)
def test_a_pool_never_has_more_than_its_node_or_less_than_it_holds(
    name: str, own: Resources, others: Resources
) -> None:
    """For any requests of others and any name of the node; a node whose name is invalid is left out."""
    nodes = SelectedNodes("")
    of: dict[str, Any] = {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"}
    nodes.renew([node(name, **of)], {name: own}, {name: others})
    for found in nodes.values():
        assert own.fits(found)
        assert found.cpu_m <= max(4000, own.cpu_m)
        assert found.memory_mib <= max(4096, own.memory_mib)
        assert found.gpus <= max(2, own.gpus)
