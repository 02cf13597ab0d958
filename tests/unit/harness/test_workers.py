"""Which tests share a worker when all cores run tests."""

from __future__ import annotations

import pytest
from tests.harness.workers import ByComponent


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/integration/kafka/test_group.py::test_a", "kafka"),
        ("tests/chaos/test_chaos.py::test_a", "kafka"),
        ("tests/integration/docker/test_limits.py::test_a[b]", "engine"),
        ("tests/integration/compose/test_compose.py::test_a", "engine"),
        ("tests/integration/test_demo.py::test_a[x::y]", "tests/integration/test_demo.py"),
        ("tests/unit/log/test_file.py::test_a[1]", "tests/unit/log/test_file.py"),
        ("tests/contract/test_logs.py::TestLog::test_a[1]", "tests/contract/test_logs.py::TestLog::test_a[1]"),
    ],
)
def test_what_shares_a_component_shares_a_worker(nodeid: str, scope: str) -> None:
    """A broker, an engine and what a file's tests share are there once; the tests of some folders go one by one."""
    assert ByComponent._split_scope(ByComponent.__new__(ByComponent), nodeid) == scope


def test_the_workers_of_this_run_share_so(request: pytest.FixtureRequest) -> None:
    """The groups are in force: pytest-xdist asks for a scheduler, and is given this one."""
    config = request.config
    made = config.hook.pytest_xdist_make_scheduler
    assert "tests.harness.workers" in {one.plugin_name for one in made.get_hookimpls()}
