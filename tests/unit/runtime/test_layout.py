"""Which partition a key belongs to."""

from __future__ import annotations

import pytest

from steepest.errors import InputError
from steepest.log.base import TopicPartition
from steepest.runtime.layout import Layout

LAYOUT = Layout(pools=("left", "right"), loss_partitions=4)


def test_a_pool_has_the_partition_that_it_was_given() -> None:
    """A pool's partition is its place in the configuration, and no hash."""
    assert LAYOUT.of_key("cluster", "right") == TopicPartition("cluster", 1)
    with pytest.raises(InputError) as caught:
        LAYOUT.of_pool("middle")
    assert "left, right" in caught.value.hint


def test_other_keys_are_hashed_the_same_way_everywhere() -> None:
    """A key's partition never changes between runs: these four are pinned."""
    found = [LAYOUT.of_key("loss", job).partition for job in ("a", "b", "mnist", "résumé")]

    assert found == [3, 1, 2, 3]


def test_every_topic_has_its_partitions() -> None:
    """There is one partition of ``cluster`` and of ``heartbeats`` for each pool, and as many of ``loss`` as configured."""
    assert LAYOUT.partitions() == {"cluster": 2, "loss": 4, "heartbeats": 2, "dead-letters": 1}
    assert LAYOUT.of_topic("cluster") == [TopicPartition("cluster", 0), TopicPartition("cluster", 1)]
