"""What the tests of monitoring share: where their figures go, and that there is a Prometheus."""

from __future__ import annotations

from typing import Any

import pytest

from .prometheus_server import missing


@pytest.fixture
def figures(pytestconfig: pytest.Config) -> dict[str, float]:
    """Where a test writes its figures, which `make test-prometheus` prints."""
    plugins: set[Any] = pytestconfig.pluginmanager.get_plugins()
    return next((plugin.figures for plugin in plugins if type(plugin).__name__ == "Findings"), {})


@pytest.fixture(autouse=True)
def there_is_a_prometheus() -> None:
    """Skip where there is none."""
    if why := missing():
        pytest.skip(why)
