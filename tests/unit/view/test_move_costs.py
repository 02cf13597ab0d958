"""What moves take: learned from those that were measured, predicted from the size of the checkpoint."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, checkpoint, migration, success

from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.view.cluster_view import ClusterView
from steepest.view.learned.move_costs import KEPT, MoveCosts, MoveSeen

MIB = 1 << 20
LEAVING_FIXED_MS, ARRIVING_FIXED_MS = 600, 900
WRITES = {"near": 3.0, "far": 90.0}
READS = {"near": 2.0, "far": 85.0}
"""Milliseconds for a MiB, by node."""

SPANS = st.integers(0, LARGEST)


def seen(mib: float, source: str = "near", target: str = "far", model: str = "", slower: float = 1.0) -> MoveSeen:
    """A move as these nodes make it."""
    return MoveSeen(
        model=model,
        source=source,
        target=target,
        size_bytes=round(mib * MIB),
        leaving_ms=round(slower * (LEAVING_FIXED_MS + WRITES[source] * mib)),
        arriving_ms=round(slower * (ARRIVING_FIXED_MS + READS[target] * mib)),
    )


def took(move: MoveSeen) -> int:
    """The whole of a move."""
    return move.leaving_ms + move.arriving_ms


def learned(*moves: MoveSeen) -> MoveCosts:
    """What is known after these moves."""
    costs = MoveCosts()
    for move in moves:
        costs.learn(move)
    return costs


def test_nothing_is_predicted_from_nothing() -> None:
    """Without a measured move, or without a size, there is no prediction."""
    assert MoveCosts().predict("", "near", "far", MIB) is None
    assert learned(seen(20)).predict("", "near", "far", 0) is None


@pytest.mark.parametrize(("source", "target"), [("near", "far"), ("far", "near")])
@pytest.mark.parametrize("mib", [5, 40, 200])
def test_sizes_that_were_never_moved_are_predicted(source: str, target: str, mib: int) -> None:
    """Two sizes in each direction suffice for all others, though one node is thirty times as slow to read and write."""
    costs = learned(seen(20), seen(60), seen(20, "far", "near"), seen(60, "far", "near"))

    predicted = costs.predict("", source, target, mib * MIB)

    assert predicted == pytest.approx(took(seen(mib, source, target)), rel=0.1)


def test_one_slow_move_hardly_counts() -> None:
    """A move that took ten times as long, because its node was busy, does not spoil the next predictions."""
    usual = [seen(mib) for mib in (20, 60, 40, 30, 50)]
    costs = learned(*usual, seen(40, slower=10.0), *usual)

    assert costs.predict("", "near", "far", 80 * MIB) == pytest.approx(took(seen(80)), rel=0.2)


def test_a_link_that_changes_is_learned_again() -> None:
    """When all moves take three times as long from some time on, predictions follow."""
    sizes = (20, 60, 40, 80)
    costs = learned(*(seen(mib) for mib in sizes * KEPT), *(seen(mib, slower=3.0) for mib in sizes * 4))

    assert costs.predict("", "near", "far", 50 * MIB) == pytest.approx(3 * took(seen(50)), rel=0.2)
    assert len(costs.seen) == KEPT


def test_a_quiet_node_keeps_what_was_learned_of_it() -> None:
    """Moves between other nodes make what is known of a node no older."""
    busy = [seen(mib) for mib in (20, 60)] * 30
    costs = learned(seen(20, "far", "near"), seen(60, "far", "near"), *busy)

    assert costs.predict("", "far", "near", 40 * MIB) == pytest.approx(took(seen(40, "far", "near")), rel=0.1)


def test_models_start_at_their_own_speed() -> None:
    """A model that takes longer to start has a fixed time of its own; another one does not."""
    slow_start_ms = 8_000
    slow = [
        msgspec.structs.replace(each, arriving_ms=each.arriving_ms + slow_start_ms)
        for each in (seen(20, model="slow"), seen(60, model="slow"))
    ]
    costs = learned(seen(20, model="quick"), seen(60, model="quick"), *slow)

    quick_ms, slow_ms = (costs.predict(model, "near", "far", 40 * MIB) or 0 for model in ("quick", "slow"))

    assert slow_ms - quick_ms == pytest.approx(slow_start_ms, rel=0.25)


def test_a_job_without_a_checkpoint_is_taken_to_have_its_models_size() -> None:
    """One that saves at its first move has the size of its model's last checkpoint; without a model, none is known."""
    costs = learned(seen(20, model="resnet"), seen(60, model="resnet"))

    assert costs.predict("resnet", "near", "far", 0) == costs.predict("resnet", "near", "far", 60 * MIB)
    assert costs.predict("other", "near", "far", 0) is None


def test_one_size_alone_is_predicted_as_it_was() -> None:
    """Until there is another size, half of the time is taken to be fixed; that of the same size is as measured."""
    costs = learned(seen(20), seen(20))

    assert costs.predict("", "near", "far", 20 * MIB) == pytest.approx(took(seen(20)), abs=2)
    assert costs.predict("", "near", "far", 40 * MIB) == pytest.approx(1.5 * took(seen(20)), abs=2)


@given(
    st.lists(
        st.builds(
            MoveSeen,
            model=st.sampled_from(("", "a", "b")),
            source=st.sampled_from("xyz"),
            target=st.sampled_from("xyz"),
            size_bytes=st.integers(1, LARGEST),
            leaving_ms=SPANS,
            arriving_ms=SPANS,
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, LARGEST),
)
def test_a_prediction_is_a_span_whatever_was_measured(moves: list[MoveSeen], size_bytes: int) -> None:
    """No measurement makes a negative or infinite one, and a larger checkpoint never takes less."""
    costs = learned(*moves)

    for source in "xyzw":
        small = costs.predict("a", source, "x", size_bytes)
        assert small is not None
        assert 0 <= small <= (costs.predict("a", source, "x", 2 * size_bytes) or 0)


def moved(pool: FoldedPool, job: str, mib: int, *, fails_once: bool = False) -> None:
    """Move a job; each of its steps takes a second."""
    pool.fold(migration(job, "w1", "w2"))
    pool.tick()
    begun = pool.begin(job)
    saved = msgspec.structs.replace(checkpoint(), size_bytes=mib * MIB)
    event = success(begun, pool.job(job))
    assert isinstance(event, c.CheckpointSaved)
    pool.fold(msgspec.structs.replace(event, checkpoint=saved))
    if fails_once:
        pool.fail(job)
    while pool.job(job).plan is not None:
        pool.tick()
        pool.act(job)


def test_a_move_that_is_over_is_learned_from() -> None:
    """The view predicts the next move from it, also after a snapshot; a move of which a step failed counts for nothing."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    for job in ("a", "b", "c"):
        pool.run(job, "w1")
    nothing = pool.view.move_ms(pool.job("c"), "w1", "w2")
    moved(pool, "a", 20, fails_once=True)
    after_a_failure = list(pool.view.state.move_costs.seen)
    moved(pool, "b", 20)
    view = ClusterView.restore(pool.view.snapshot())
    planned_ms, over_ms = (
        next(each.at_ms for each in pool.log if isinstance(each.event, kind) and each.event.plan == "move-b-1")
        for kind in (c.MigrationPlanned, c.MigrationFinished)
    )

    assert (nothing, after_a_failure) == (None, [])
    assert view.move_ms(view.jobs["b"], "w1", "w2") == pytest.approx(over_ms - planned_ms, abs=2)
    assert view.move_ms(view.jobs["c"], "w1", "w2") is None
    assert view.jobs["b"].checkpoint is not None
    assert view.jobs["b"].checkpoint.size_bytes == 20 * MIB
