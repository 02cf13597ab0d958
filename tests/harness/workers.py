"""Which worker runs which test: one worker runs all tests of a broker or an engine, and all of an integration file.

pytest-xdist's own ``loadgroup`` writes the group into a test's id, which pytest 9.2 no longer takes, so the groups are made
from the ids here.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARE_A_COMPONENT = {
    "tests/chaos/": "kafka",
    "tests/integration/kafka/": "kafka",
    "tests/integration/compose/": "engine",
    "tests/integration/docker/": "engine",
}
LONGEST = "tests/hostile/"


class ByComponent(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests that share a started component to one worker, and all others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        for folder, component in SHARE_A_COMPONENT.items():
            if nodeid.startswith(folder):
                return component
        return nodeid.partition("::")[0] if nodeid.startswith("tests/integration/") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByComponent | None:
    """Take the place of ``--dist=loadgroup``."""
    return ByComponent(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than there are cores, because tests of whole systems wait for what they have started."""
    return (os.cpu_count() or 1) + 1 if config.option.numprocesses == "auto" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: a test of half a minute that starts last leaves the other cores idle."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
