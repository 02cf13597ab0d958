"""Settings: what is wrong is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest.mqtt.settings import mqtt_settings


def test_settings_are_read() -> None:
    """Without a broker there are none; with one the others have their defaults; secrets are not shown."""
    assert mqtt_settings({}) is None
    assert mqtt_settings({"STEEPEST_MQTT": ""}) is None
    settings = mqtt_settings(
        {"STEEPEST_MQTT": "[::1]:8883", "STEEPEST_MQTT_TLS": "true", "STEEPEST_MQTT_PASSWORD": "s3"}
    )

    assert settings is not None
    assert (settings.host, settings.port, settings.tls, settings.prefix) == ("::1", 8883, True, "steepest")
    assert "s3" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STEEPEST_MQTT", "broker"),
        ("STEEPEST_MQTT", "broker:0"),
        ("STEEPEST_MQTT", "broker:99999"),
        ("STEEPEST_MQTT", "mqtt://broker:1883"),
        ("STEEPEST_MQTT_TSL", "true"),
        ("STEEPEST_MQTT_TLS", "maybe"),
        ("STEEPEST_MQTT_PREFIX", "a/#"),
        ("STEEPEST_MQTT_PREFIX", "/a"),
        ("STEEPEST_MQTT_DEVICE", "Edge 1"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str) -> None:
    """An unknown setting or an invalid value is refused, and the message names the variable."""
    with pytest.raises(InputError) as refused:
        mqtt_settings({"STEEPEST_MQTT": "broker:1883", name: value})

    assert name in f"{refused.value} {refused.value.hint}"


def test_missing_certificates_are_reported(tmp_path: Path) -> None:
    """A file that cannot be read is an error before anything connects."""
    settings = mqtt_settings({"STEEPEST_MQTT": "broker:8883", "STEEPEST_MQTT_CA_FILE": str(tmp_path / "none")})

    assert settings is not None
    with pytest.raises(InputError, match="certificates"):
        settings.tls_context()
