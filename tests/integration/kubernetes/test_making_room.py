"""Pods on a real node whose memory is reserved: a short job need not wait."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from tests.integration import steady_training
from tests.integration.kubernetes.moving_system import lab_system
from tests.integration.making_room import a_short_job_gets_the_place_of_the_last_in_line

from tools.kubernetes_lab.lab import KubernetesLab


@pytest.mark.timeout(400)
def test_a_short_job_gets_the_place_of_the_last_in_line(lab: KubernetesLab, kubeconfig: Path) -> None:
    """Jobs of 256 MiB on a node of 1 GiB."""
    state = lab.folder.volume / f"room-{secrets.token_hex(4)}"
    options = ("--policy", "steepest", "--min-run", "5s")
    with lab_system(lab, kubeconfig, state, ("node-a=0.9:1GiB",), *options) as system:
        program = ("python3", "-c", Path(steady_training.__file__).read_text())
        a_short_job_gets_the_place_of_the_last_in_line(system, program, ("--memory", "256MiB"))
