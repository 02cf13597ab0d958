"""An image of a job's processes leaves it the nodes that can restore it, where nodes differ in that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, migration, placement, submitted

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef, KeeperFacts, Resources
from steepest.events.requests import Role
from steepest.keeper.places import FORMAT, refuse_other_place
from steepest.keeper.processes import CannotBeSaved
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable_sentence
from steepest.view.places.node_rules import doubtful_places, is_allowed, why_not_allowed, why_not_restored
from steepest.view.state import Node
from steepest.view.validity import NoRoom

HERE = KeeperFacts(machine="x86_64", kernel="6.18", criu=(4, 2), cpu="avx sse")
LESS = msgspec.structs.replace(HERE, cpu="sse")
MORE = msgspec.structs.replace(HERE, cpu="avx avx512f sse")
NEWER = msgspec.structs.replace(HERE, kernel="6.19")
NONE = KeeperFacts(unable="CRIU needs root here")
KEEPERS = st.builds(
    KeeperFacts,
    machine=st.sampled_from(["x86_64", "aarch64"]),
    kernel=st.sampled_from(["6.1", "6.18"]),
    criu=st.sampled_from([(4, 1), (4, 2)]),
    cpu=st.lists(st.sampled_from(["avx", "avx512f", "sse"]), min_size=1, unique=True).map(" ".join),
    images=st.sampled_from(["1", "2"]).map(lambda layers: (("", layers),)),
)


@given(there=KEEPERS, here=KEEPERS)
def test_the_view_refuses_where_a_keeper_would(there: KeeperFacts, here: KeeperFacts) -> None:
    """A node is left out exactly if the keeper there refuses the image before it tries CRIU, and with the same word."""
    node = Node(name="n", capacity=Resources(1), keeper=here)
    assert why_not_restored(there, node).partition(":")[0] == _refused(there, here)


def _refused(there: KeeperFacts, here: KeeperFacts) -> str:
    """The code with which a keeper refuses; empty: it does not."""
    try:
        refuse_other_place(_place(there), _place(here))
    except CannotBeSaved as why:
        return why.code
    return ""


def _place(facts: KeeperFacts) -> dict[str, Any]:
    """The same facts as a keeper notes them with an image."""
    known = {"machine": facts.machine, "kernel": facts.kernel, "criu": list(facts.criu), "cpu": facts.cpu.split()}
    return {**known, "format": FORMAT, "files": dict(facts.images)[""], "clock_s": 0.0}


def pool(**keepers: KeeperFacts | None) -> FoldedPool:
    """A job that a keeper can save runs on the first of these nodes."""
    made = FoldedPool()
    made.fold(c.PoolConfigured())
    for name, keeper in keepers.items():
        join(made, name, keeper)
    made.run("a", next(iter(keepers)), mode=CheckpointMode.SYSTEM)
    declare(made, next(iter(keepers)), 1)
    return made


def join(made: FoldedPool, name: str, keeper: KeeperFacts | None) -> None:
    """A node says what its keepers are."""
    made.fold(c.NodeJoined(node=name, capacity=Resources(cpu_m=1_000), keeper=keeper))


def declare(made: FoldedPool, node: str, incarnation: int) -> None:
    """Its keeper says that it can be saved."""
    made.fold(c.CheckpointModeDeclared(job="a", incarnation=incarnation, node=node, mode=CheckpointMode.SYSTEM))


@pytest.mark.parametrize(
    ("there", "refused"),
    [(HERE, None), (MORE, None), (None, None), (LESS, NoRoom.NOT_ALLOWED), (NONE, NoRoom.NOT_ALLOWED)],
)
def test_no_plan_moves_a_job_to_a_node_that_would_refuse_its_image(
    there: KeeperFacts | None, refused: NoRoom | None
) -> None:
    """Whether the node was known when the job started or has joined since; nothing is known of one that says nothing."""
    for later in (False, True):
        made = pool(w1=HERE) if later else pool(w1=HERE, w2=there)
        if later:
            join(made, "w2", there)
        made.fold(migration("a", "w1", "w2"))
        assert made.view.refused == refused


@pytest.mark.parametrize(
    ("images", "may"), [((("", "1"),), True), ((("", "2"),), False), ((("", ""),), False), ((), True)]
)
def test_the_container_image_of_that_name_must_have_the_same_layers(
    images: tuple[tuple[str, str], ...], *, may: bool
) -> None:
    """Of a node that has others, or no such image, `explain` has the reason; other names do not matter."""
    there = msgspec.structs.replace(HERE, images=(*images, ("other", "2")))
    made = pool(w1=msgspec.structs.replace(HERE, images=(("", "1"), ("other", "1"))), w2=there)
    made.fold(migration("a", "w1", "w2"))
    assert made.view.refused == (None if may else NoRoom.NOT_ALLOWED)
    why = why_not_allowed(made.job("a").node_rule, made.node("w2"))
    assert why.partition("other-image")[1] == ("" if may else "other-image")


def test_a_job_keeps_its_rule_where_all_nodes_are_alike() -> None:
    """Deciders treat it as they do any other job then, and no snapshot grows."""
    made = pool(w1=HERE, w2=HERE)
    assert (made.job("a").node_rule, made.job("a").narrowed) == (None, None)
    join(made, "w2", LESS)
    assert made.job("a").narrowed is not None
    join(made, "w2", HERE)
    assert made.job("a").narrowed is None


def test_a_job_that_does_not_run_has_the_nodes_of_its_image() -> None:
    """Not those of the node where it ran last, which has changed since then; also after a snapshot."""
    made = pool(w1=HERE, w2=HERE, w3=LESS)
    image = CheckpointRef("step-00000009-i0001", 9, "sha256:9", is_image=True)
    made.fold(c.CheckpointVerified(job="a", incarnation=1, node="w1", checkpoint=image))
    join(made, "w1", MORE)
    assert allowed(made.view) == ["w1"]  # it would be saved there first
    made.fold(made.stopped("a", None))
    assert allowed(made.view) == allowed(ClusterView.restore(made.view.snapshot())) == ["w1", "w2"]


@pytest.mark.parametrize(
    ("keepers", "may"),
    [
        ((NEWER, NEWER), ["w1", "w2"]),
        ((NEWER, NONE), ["w1"]),
        ((NEWER, None), ["w2"]),
        ((NEWER, HERE), ["w2"]),
        ((NONE, NONE), []),
    ],
)
def test_a_job_waits_for_no_node_where_none_may_ever_restore_it(
    keepers: tuple[KeeperFacts | None, ...], may: list[str]
) -> None:
    """All machines were upgraded: a keeper begins it again. Without rights, or with an unknown node, it waits."""
    made = pool(w1=HERE, w2=HERE)
    image = CheckpointRef("step-00000009-i0001", 9, "sha256:9", is_image=True)
    made.fold(c.CheckpointVerified(job="a", incarnation=1, node="w1", checkpoint=image))
    made.fold(made.stopped("a", None))
    for name, keeper in zip(("w1", "w2"), keepers, strict=True):
        join(made, name, keeper)
    assert allowed(made.view) == may


def allowed(view: ClusterView) -> list[str]:
    """Where it may run."""
    return [node.name for node in view.nodes if is_allowed(view.jobs["a"].node_rule, node)]


@pytest.mark.parametrize(
    ("keeper", "spec", "said"),
    [
        (None, {}, ""),
        (NONE, {}, "no-keeper: CRIU needs root here"),
        (HERE, {}, ""),
        (HERE, {"tty": True}, "terminal: a terminal from outside is not saved"),
        (HERE, {"requests": Resources(gpus=1)}, "device: memory of GPUs is not saved"),
        (NONE, {"mode": CheckpointMode.NONE}, ""),
    ],
)
def test_a_job_without_a_keeper_has_the_reason(keeper: KeeperFacts | None, spec: dict[str, Any], said: str) -> None:
    """Where its user has said nothing of its checkpoints, and the node says whether it can have keepers."""
    made = FoldedPool()
    made.fold(c.NodeJoined(node="w1", capacity=Resources(cpu_m=1_000, gpus=1), keeper=keeper))
    options: dict[str, Any] = {"mode": None, **spec}
    job = made.run("a", "w1", **options)
    sentence = "it cannot be checkpointed"
    assert immovable_sentence(job, made.node("w1")) == (f"{sentence}: {said}" if said else sentence)


@pytest.mark.parametrize(
    ("most", "nodes", "said"),
    [
        (2, ("w1", "w2"), "gang: its replicas talk over TCP between nodes"),
        (3, ("w1", "w1"), "gang: its image could not be restored with more or fewer replicas"),
        (2, ("w1", "w1"), ""),
    ],
)
def test_a_gang_without_a_keeper_has_the_reason(most: int, nodes: tuple[str, ...], said: str) -> None:
    """One of a fixed number of replicas, all on one node, can have keepers."""
    made = FoldedPool()
    for name in ("w1", "w2"):
        made.fold(c.NodeJoined(node=name, capacity=Resources(cpu_m=1_000), keeper=HERE))
    role = Role(name="worker", replicas=2, max=most, requests=Resources(cpu_m=100))
    made.feed(submitted("a", mode=None, roles=(role,)), placement("a", *nodes))
    made.carry_out("a")
    job = made.job("a")
    sentence = "it cannot be checkpointed"
    assert immovable_sentence(job, made.node("w1")) == (f"{sentence}: {said}" if said else sentence)


@pytest.mark.parametrize("there", [None, HERE, LESS, NONE])
def test_what_is_not_known_of_a_node_is_said(there: KeeperFacts | None) -> None:
    """Of an engine or a kubelet on whose machine no keeper has run, and of no other node."""
    silent = KeeperFacts(machine="x86_64", kernel="6.18")
    view = pool(w1=HERE, w2=silent, w3=there).view
    *refused, said = doubtful_places(view.jobs["a"], view.nodes)

    why = why_not_restored(HERE, view.nodes["w3"])
    assert said == "it is not known whether the CPU of w2 can restore it: no keeper has run there"
    assert refused == ([f"w3 cannot restore it: {why}"] if why else [])
    assert list(doubtful_places(view.jobs["a"], pool(w1=HERE, w3=there).view.nodes)) == refused
