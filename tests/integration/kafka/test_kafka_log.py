"""The contract of ordered logs, on Apache Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.harness.contracts.log_contract import PARTITIONS, Reopen
from tests.harness.contracts.log_processes import Opener, SharedLogContract
from tests.harness.contracts.log_retention import RetentionContract, Trim

from steepest.log.base import TopicPartition
from steepest.log.kafka.broker import Broker
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import KafkaTopics


def open_log(bootstrap: str, prefix: str) -> KafkaLog:
    """A handle on the topics of one test."""
    return KafkaLog(KafkaSettings(bootstrap=bootstrap, prefix=prefix), PARTITIONS)


class TestKafkaLog(SharedLogContract, RetentionContract):
    """The contract, on a real broker."""

    @pytest.fixture
    async def log(self, broker: Broker, prefix: str) -> AsyncIterator[KafkaLog]:
        """Empty topics."""
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        config = {"max.message.bytes": str(9 << 20), "message.timestamp.after.max.ms": str(2**63 - 1)}
        await admin.create_topics(
            [NewTopic(prefix + topic, count, 1, topic_configs=config) for topic, count in PARTITIONS.items()]
        )
        await admin.close()
        log = open_log(broker.bootstrap, prefix)
        yield log
        await log.close()

    @pytest.fixture
    def reopen(self, broker: Broker, prefix: str) -> Reopen:
        """Other clients on the same topics."""

        async def again() -> KafkaLog:
            return open_log(broker.bootstrap, prefix)

        return again

    @pytest.fixture
    def opener(self, broker: Broker, prefix: str) -> Opener:
        """Another process opens the topics."""
        return "tests.integration.kafka.test_kafka_log:open_log", [broker.bootstrap, prefix]

    @pytest.fixture
    def trim(self, log: KafkaLog, broker: Broker, prefix: str) -> Trim:
        """The broker removes them, as it does by age."""
        del log
        topics = KafkaTopics(KafkaSettings(bootstrap=broker.bootstrap, prefix=prefix), PARTITIONS)

        async def trim(at: TopicPartition, before: int) -> None:
            await topics.trim({at: before})

        return trim
