"""`up --gateway` over a log in files, with the real command line and real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.gateway.gateway_system import follow_a_job_through_the_gateway

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_job_is_followed_through_the_gateway(tmp_path: Path) -> None:
    """Submitted with `--server --wait`, also where the gateway is killed meanwhile; its events are those of the log."""
    follow_a_job_through_the_gateway(tmp_path / "state")
