"""Which worker runs which test: one worker runs all tests of a broker or an engine, and all tests of most files.

What the tests of a file share is thus made once, and not once in each worker. pytest-xdist's own ``loadgroup`` writes the
group into a test's id, which pytest 9.2 no longer takes, so the groups are made from the ids here.
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
ONE_BY_ONE = (
    "tests/contract/",
    "tests/faults/",
    "tests/frameworks/",
    "tests/unit/cluster/",
    "tests/unit/demo_jobs/",
    "tests/unit/harness/",
    "tests/unit/sagas/",
    "tests/unit/sdk/",
)
"""Folders whose files take long and share nothing: the tests of a file are divided among the workers."""

LONGEST_FIRST = (*SHARE_A_COMPONENT, "tests/hostile/", "tests/integration/", "tests/contract/")


class ByComponent(LoadScopeScheduling):  # type: ignore[misc]
    """Sends tests that share a started component to one worker, those of some folders one by one, all others by file."""

    def _split_scope(self, nodeid: str) -> str:
        for folder, component in SHARE_A_COMPONENT.items():
            if nodeid.startswith(folder):
                return component
        return nodeid if nodeid.startswith(ONE_BY_ONE) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByComponent | None:
    """Take the place of ``--dist=loadgroup``, and keep the order of the tests: a file of many tests may be a short one."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return ByComponent(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Two workers more than there are cores, because tests of whole systems wait for what they have started."""
    return (os.cpu_count() or 1) + 2 if config.option.numprocesses == "auto" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: a test of half a minute that starts last leaves the other cores idle."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((at for at, folder in enumerate(LONGEST_FIRST) if nodeid.startswith(folder)), len(LONGEST_FIRST))
