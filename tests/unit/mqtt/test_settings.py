"""How a broker is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest.mqtt.settings import MqttSettings


def test_an_address_has_a_host_and_a_port() -> None:
    """Also where the host is an address of IPv6; secrets are not shown."""
    settings = MqttSettings(broker="[::1]:8883", password="s3")  # noqa: S106

    assert (settings.host, settings.port) == ("::1", 8883)
    assert "s3" not in repr(settings)


def test_missing_certificates_are_reported(tmp_path: Path) -> None:
    """A file that cannot be read is an error before anything connects."""
    settings = MqttSettings(broker="broker:8883", ca_file=str(tmp_path / "none"))

    with pytest.raises(InputError, match="certificates"):
        settings.tls_context()
