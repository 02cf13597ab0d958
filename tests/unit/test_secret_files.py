"""What holds secrets is taken only where no other user reads or changes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.gateway.access import read_tokens
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.mqtt.settings import MqttSettings
from steepest.secret_files import read_secret

TOKENS = "operate 0123456789abcdef\n"
OPENERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "tokens": (TOKENS, read_tokens),
    "settings": ('[kafka]\npassword = "p"\n', lambda path: read_settings(config=path, environ={})),
    "kafka's key": ("", lambda path: KafkaSettings(security="SSL", key_file=str(path)).client()),
    "mqtt's key": ("", lambda path: MqttSettings(cert_file=str(path), key_file=str(path)).tls_context()),
}
"""What each of these files holds, and who opens it."""


@pytest.mark.parametrize("kind", OPENERS)
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o660, 0o666])
def test_a_secret_that_others_may_read_or_change_is_refused(tmp_path: Path, kind: str, mode: int) -> None:
    """The error names the file, its mode, and what closes it, and nothing of what is in it."""
    content, opened = OPENERS[kind]
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(InputError) as refused:
        opened(path)

    assert str(path) in str(refused.value)
    assert f"mode {mode:04o}" in str(refused.value)
    assert refused.value.hint == f"close it: chmod 600 {path}"
    assert "0123456789abcdef" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_secret_may_be_read_by_its_group(tmp_path: Path, mode: int) -> None:
    """Kubernetes gives the files of a Secret to the group of a pod."""
    path = tmp_path / "tokens"
    path.write_text(TOKENS)
    path.chmod(mode)

    assert read_secret(path) == TOKENS
    assert list(read_tokens(path)) == ["0123456789abcdef"]


def test_settings_without_a_secret_may_be_open(tmp_path: Path) -> None:
    """They are shared between users on purpose."""
    path = tmp_path / "settings.toml"
    path.write_text('[kafka]\nbootstrap = "a:1"\npassword = ""\n')
    path.chmod(0o644)

    assert read_settings(config=path, environ={}).kafka.bootstrap == "a:1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    """Who owns it can change it: a file of tokens, and a state folder, in which a log runs commands."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    os.chown(path, 65_534, 65_534)
    with pytest.raises(InputError, match=r"belongs to another user \(uid 65534\)"):
        read_tokens(path)
    state = tmp_path / "state"
    state.mkdir(0o700)
    os.chown(state, 65_534, 65_534)
    with pytest.raises(InputError, match=r"belongs to another user \(uid 65534\)") as refused:
        StateFolder(state).create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))

    assert refused.value.hint == f"take it over: chown {os.geteuid()} {state}"
    assert list(state.iterdir()) == []
