"""``steepest config``: what is in force, where it comes from, and a file to begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from steepest.app.settings.rows import HIDDEN, rows
from steepest.cli.main import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder without a state folder."""
    monkeypatch.chdir(tmp_path)


def test_every_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    """For programs: all of them, typed; a password is not shown."""
    file = tmp_path / "steepest.toml"
    file.touch(0o600)
    file.write_text('[kafka]\npassword = "s3cret"\n[cluster]\nnodes = ["n1=0.5"]\n')
    call = ["config", "show", "--config", str(file), "--state", "here", "--json"]
    done = CliRunner().invoke(main, call, env={"STEEPEST_METRICS_PORT": "9400"})
    found = {one["setting"]: (one["value"], one["origin"]) for one in json.loads(done.stdout)}

    assert list(found) == [row.path for row in rows()]
    assert found["kafka.password"] == (HIDDEN, str(file))
    assert found["cluster.nodes"] == (["n1=0.5"], str(file))
    assert found["metrics.port"] == (9400, "STEEPEST_METRICS_PORT")
    assert found["state_dir"] == ("here", "--state")
    assert found["kafka.security"] == ("PLAINTEXT", "default")
    assert "s3cret" not in done.output


def test_settings_are_shown_to_people() -> None:
    """A line a setting."""
    done = CliRunner().invoke(main, ["config", "show"], env={"STEEPEST_MQTT_PASSWORD": "s3cret"})

    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert lines["mqtt.password"] == [HIDDEN, "STEEPEST_MQTT_PASSWORD"]
    assert lines["metrics.host"] == ["127.0.0.1", "default"]


def test_the_example_can_be_used(tmp_path: Path) -> None:
    """As it is, nothing but defaults is in force."""
    file = tmp_path / "steepest.toml"
    file.write_text(CliRunner().invoke(main, ["config", "example"]).stdout)
    done = CliRunner().invoke(main, ["config", "show", "--config", str(file), "--json"])

    assert {one["origin"] for one in json.loads(done.stdout)} == {"default"}


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    """Status 2; the file and the key are named."""
    file = tmp_path / "steepest.toml"
    file.write_text('[kafka]\nsecurty = "SSL"\n')
    done = CliRunner().invoke(main, ["jobs", "--config", str(file)])

    assert done.exit_code == 2
    assert done.stderr == f"Error: {file}: there is no setting kafka.securty; did you mean kafka.security?\n"
