"""What `docker compose up` opens: ports of this machine alone, and no account whose password everybody knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_every_port_is_open_on_this_machine_alone() -> None:
    """None is published on all addresses, which is what Docker does with one that names no address."""
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_grafana_has_no_account_and_is_the_version_that_dashboards_are_checked_with() -> None:
    """Its default login is known to everybody: there is no administrator, and neither of the ways to log in."""
    grafana = SERVICES["grafana"]
    asked = grafana["environment"]
    schema = json.loads((ROOT / "tools" / "monitoring" / "package.json").read_text())["devDependencies"]

    assert asked["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert (asked["GF_AUTH_BASIC_ENABLED"], asked["GF_AUTH_DISABLE_LOGIN_FORM"]) == ("false", "true")
    assert asked["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert grafana["image"] == f"grafana/grafana:{schema['@grafana/schema']}"
