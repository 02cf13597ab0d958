"""The nodes joined by a link of a limited rate, over which one reaches the volume: a checkpoint's transfer is what it costs.

How near predictions come is measured by ``make bench-link``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.kubernetes.linked_moves import MovingJobs, linked_system
from tests.integration.kubernetes.sized_training import MIB

from tools.kubernetes_lab import link
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

MBIT = 100
CALIBRATION_MIB = (30, 10, 20)
COUNTED_MIB = 25
ONCE = 1.3
"""Times its size that a checkpoint may put onto the link, with all that the node says besides: it crosses once."""


@pytest.fixture
def linked(lab: KubernetesLab) -> Iterator[KubernetesLab]:
    """The lab with its second node behind a link; it is one machine again afterwards."""
    if why := link.missing():
        pytest.skip(f"{why}; get it with: make links")
    found = lab.link.is_made
    try:
        lab.join_by_link()
        lab.link.shape(MBIT)
        yield lab
        lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true")
    finally:
        if not found:
            lab.part_from_link()


@pytest.mark.timeout(400)
def test_a_checkpoint_crosses_the_link(linked: KubernetesLab, kubeconfig: Path) -> None:
    """A move takes the transfer's time at least, the checkpoint crosses once, and its plan said beforehand what it takes."""
    state = linked.folder.volume / f"link-{secrets.token_hex(4)}"
    with linked_system(linked, kubeconfig, state) as system:
        jobs = MovingJobs(system, linked)
        calibration = jobs.move(*CALIBRATION_MIB)
        (moved,) = jobs.move(COUNTED_MIB, COUNTED_MIB)
        breaches = system.breaches()
    transfer_ms = COUNTED_MIB * MIB * 8 / MBIT / 1000

    assert calibration[0].predicted_ms is None, "nothing was measured yet"
    assert moved.took_ms > transfer_ms
    assert COUNTED_MIB < moved.crossed_mib[0] < ONCE * COUNTED_MIB
    assert moved.predicted_ms is not None
    assert moved.predicted_ms > transfer_ms / 2
    assert breaches == []
