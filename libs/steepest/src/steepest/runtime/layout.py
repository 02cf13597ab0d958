"""Which partition a record belongs to. A pool's partitions are configured; any other key is hashed, the same everywhere."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import msgspec

from steepest.errors import InputError
from steepest.events.registry import BY_POOL, TOPICS
from steepest.log.base import TopicPartition

DEAD_LETTERS = TopicPartition("dead-letters")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Topics and partitions of an installation.

    Attributes:
        pools: The pools in the order of their partitions of ``cluster`` and ``heartbeats``.
        loss_partitions: Partitions of ``loss``.
    """

    pools: tuple[str, ...] = ("default",)
    loss_partitions: int = TOPICS["loss"].partitions

    def partitions(self) -> Mapping[str, int]:
        """Every topic's number of partitions."""
        counts = {name: topic.partitions for name, topic in TOPICS.items()}
        by_pool = dict.fromkeys(BY_POOL, len(self.pools))
        return {**counts, **by_pool, "loss": self.loss_partitions}

    def of_topic(self, topic: str) -> Sequence[TopicPartition]:
        """A topic's partitions in order."""
        return [TopicPartition(topic, partition) for partition in range(self.partitions()[topic])]

    def of_pool(self, pool: str) -> TopicPartition:
        """The pool's partition of ``cluster``.

        Raises:
            InputError: There is no such pool.
        """
        if pool not in self.pools:
            raise InputError(f"no pool {pool!r}", hint=f"the pools are {', '.join(self.pools)}")
        return TopicPartition("cluster", self.pools.index(pool))

    def of_key(self, topic: str, key: str, pool: str = "") -> TopicPartition:
        """The partition of a key's records about a pool; empty: the key is the pool's name, or the pool does not matter.

        Raises:
            InputError: There is no such pool.
        """
        if topic in BY_POOL:
            return TopicPartition(topic, self.of_pool(pool or key).partition)
        return TopicPartition(topic, zlib.crc32(key.encode()) % self.partitions()[topic])
