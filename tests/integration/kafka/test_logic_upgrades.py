"""The behaviour of deciders changes while their log is a real broker's."""

from __future__ import annotations

import pytest
from tests.harness.upgrade_contract import LAYOUT, upgrade
from tests.harness.upgrade_stories import BESIDE_EACH_OTHER, CASES

from steepest.app.installation import apply_topics
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings

ONE_EACH = {case.decider: name for name, case in CASES.items()}.values()


@pytest.mark.parametrize("name", ONE_EACH)
async def test_the_new_logic_decides_what_the_old_passed_over(kafka: KafkaSettings, name: str) -> None:
    """Old and new beside each other where a partition may have two readers, else one after the other."""
    await apply_topics(kafka, LAYOUT)
    await upgrade(CASES[name], lambda: KafkaLog(kafka, LAYOUT.partitions()), rolling=name in BESIDE_EACH_OTHER)
