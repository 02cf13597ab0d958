"""A real broker for the session, and topics of its own for every test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from steepest.log.kafka.broker import Broker, missing, running_broker
from steepest.log.kafka.kafka_settings import KafkaSettings

HOME = Path(__file__).parents[3] / ".kafka"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with an empty folder."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    with running_broker(tmp_path_factory.mktemp("broker"), home=HOME) as started:
        yield started


PREFIXES = (f"t{number}-" for number in itertools.count())


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test's topics have."""
    return next(PREFIXES)


@pytest.fixture
def kafka(broker: Broker, prefix: str) -> KafkaSettings:
    """The broker, with topics that no other test has."""
    return KafkaSettings(bootstrap=broker.bootstrap, prefix=prefix)
