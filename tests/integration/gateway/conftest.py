"""A state folder with a gateway, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.gateway.browser import Browser, refuse_without_browser
from tests.integration.gateway.served import ServedFolder


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedFolder]:
    """A state folder whose gateway is stopped in the end."""
    folder = ServedFolder(tmp_path)
    yield folder
    folder.stop()


@pytest.fixture(scope="module")
def served_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    """One gateway for tests that change nothing."""
    folder = ServedFolder(tmp_path_factory.mktemp("once"))
    folder.start()
    yield folder
    folder.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser of the size of a desk's screen."""
    refuse_without_browser()
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.quit()


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser of the size of a phone, in the dark; a window is no narrower than 500 pixels, but what it shows is."""
    refuse_without_browser()
    one = Browser(tmp_path_factory.mktemp("phone"), width=500, height=850, dark=True)
    size = {"width": 420, "height": 850, "deviceScaleFactor": 1, "mobile": False}
    one.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield one
    one.quit()
