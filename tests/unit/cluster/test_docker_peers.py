"""The addresses of a gang's machines: loopback only where all are this machine."""

from __future__ import annotations

import pytest

from steepest.cluster.docker.addresses import peer_hosts
from steepest.errors import RefusedError


@pytest.mark.parametrize(
    ("urls", "hosts"),
    [
        (["unix:///run/a.sock", "unix:///run/b.sock"], ("127.0.0.1", "127.0.0.1")),
        (["tcp://gpu2:2376", "ssh://me@gpu3:22", "ssh://gpu4"], ("gpu2", "gpu3", "gpu4")),
        # The probe of loopback says that this machine reaches it from loopback.
        (["unix:///run/a.sock", "tcp://127.0.0.1:2376"], ("127.0.0.1", "127.0.0.1")),
    ],
)
def test_each_engine_has_a_host(urls: list[str], hosts: tuple[str, ...]) -> None:
    """Engines at sockets are this machine; the others are the hosts of their addresses."""
    assert peer_hosts(urls) == hosts


def test_a_machine_without_an_address_is_refused() -> None:
    """A gang over this machine and one that it cannot resolve is refused, and nothing happened."""
    with pytest.raises(RefusedError) as refusal:
        peer_hosts(["unix:///run/a.sock", "tcp://no-such-host.invalid:2376"])

    assert refusal.value.code == "no-address"
