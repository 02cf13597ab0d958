"""`up --kafka --gateway`: the gateway reads a real broker's topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.gateway.gateway_system import follow_a_job_through_the_gateway

from steepest.log.kafka.kafka_settings import KafkaSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_job_is_followed_through_the_gateway(tmp_path: Path, kafka: KafkaSettings) -> None:
    """Every service and the gateway are processes of their own over the broker; the gateway is killed and comes back."""
    env = {"STEEPEST_KAFKA_PREFIX": kafka.prefix}
    follow_a_job_through_the_gateway(tmp_path / "state", "--kafka", kafka.bootstrap, env=env)
