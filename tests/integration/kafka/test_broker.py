"""The broker that Steepest starts: one per folder, even with several starters, and stopped for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.integration.kafka.conftest import HOME

from steepest.log.kafka.broker import Broker, missing


@pytest.mark.slow
def test_a_broker_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    """The starter was killed: the next one finds the same broker at the same address, and can stop it."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    start = f"from steepest.log.kafka.broker import *; x = Broker(Path({str(tmp_path)!r})); x.start(); print(x.pid)"
    done = subprocess.run(
        [sys.executable, "-c", start],
        env={**os.environ, "STEEPEST_KAFKA_HOME": str(HOME)},
        stdout=subprocess.PIPE,
        check=True,
    )
    pid = int(done.stdout)
    second = Broker(tmp_path, home=HOME)
    second.start()

    assert second.pid == pid
    second.stop()
    assert not psutil.pid_exists(pid)
    third = Broker(tmp_path, home=HOME)
    third.start()
    assert third.bootstrap == second.bootstrap
    assert third.pid != pid
    third.stop()
