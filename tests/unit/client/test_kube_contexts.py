"""Kube contexts: which one is meant, what is refused of a kubeconfig, and whose credentials are taken."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from steepest.cli.main import main
from steepest.cluster.kubernetes.contexts import FILE_MOST, read_context
from steepest.errors import InputError

ARN = "arn:aws:eks:eu-west-1:1:cluster/big"
CONTEXTS = {"lab": "training", ARN: None, "plain": None}


def config(path: Path, current: str | None = "lab", user: dict[str, Any] | None = None, **cluster: object) -> str:
    """Write a kubeconfig with three contexts; give its path."""
    server = {"server": "https://api.test:6443/", **cluster}
    content = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": user or {"token": "its own"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", **({"namespace": place} if place else {})}}
            for name, place in CONTEXTS.items()
        ],
        **({"current-context": current} if current else {}),
    }
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("asked", "name", "namespace"),
    [
        ("", "lab", "training"),
        ("lab", "lab", "training"),
        ("plain", "plain", "default"),
        ("lab/other", "lab", "other"),
        ("/other", "lab", "other"),
        (ARN, ARN, "default"),
        (f"{ARN}/other", ARN, "other"),
    ],
)
def test_a_context_and_a_namespace_are_named(tmp_path: Path, asked: str, name: str, namespace: str) -> None:
    """Each part may be left out, and the name of a context may have slashes and colons."""
    found = read_context(asked, config(tmp_path / "config"))

    assert (found.name, found.namespace, found.server) == (name, namespace, "https://api.test:6443")
    assert found.authorization == "Bearer its own"
    assert "its own" not in repr(found)


@pytest.mark.parametrize(
    ("asked", "current", "message", "hint"),
    [
        ("lob", "lab", "there is no context 'lob'", "there are lab, "),
        ("lob/training", "lab", "there is no context 'lob'", "there are lab, "),
        ("", None, "no context is the current one", "kubectl config use-context"),
        ("", "gone", "there is no context 'gone'", "there are lab, "),
        ("lab/No name", "lab", "'No name' is no name of a namespace", "kube:CONTEXT/NAMESPACE"),
        ("lab/..", "lab", "is no name of a namespace", "kube:CONTEXT/NAMESPACE"),
    ],
)
def test_a_context_that_is_none_is_refused(
    tmp_path: Path, asked: str, current: str | None, message: str, hint: str
) -> None:
    """The error says which there are."""
    with pytest.raises(InputError) as refused:
        read_context(asked, config(tmp_path / "config", current))

    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_files_are_found_as_kubectl_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that ``KUBECONFIG`` lists and that are there; without it, the one in the user's folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(InputError, match="there is no kubeconfig") as refused:
        read_context()
    (tmp_path / ".kube").mkdir()
    config(tmp_path / ".kube" / "config", "plain")
    by_default = read_context().name
    listed = config(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{listed}:~/.kube/config")

    assert refused.value.code == "no-kubeconfig"
    assert by_default == "plain"
    assert read_context("lab").namespace == "training"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        b"- a\n- b\n",
        b"just words",
        b"a: [",
        b"contexts: 7\nclusters: 7\nusers: 7\n",
        b"contexts: [7]\nclusters: []\nusers: []\n",
        b"contexts: [{name: lab, context: {cluster: c}}]\nclusters: []\n",
        b"contexts: [{name: lab}]\nclusters: [{name: c}]\ncurrent-context: lab\n",
        b"contexts: [{name: [1], context: {}}]\nclusters: [{name: c}]\ncurrent-context: lab\n",
        b"!!python/object/apply:os.system ['true']\n",
        b"[" * 5_000,
    ],
)
def test_a_file_that_is_no_kubeconfig_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    """Missing parts, wrong types, YAML tags and deep nesting are refused alike."""
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(InputError):
        read_context("lab", str(tmp_path / "config"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "large", "loop", "nul", "long"])
def test_a_path_that_is_no_file_is_an_input_error(tmp_path: Path, kind: str) -> None:
    """Nothing is opened that would block or never end."""
    path = tmp_path / "config"
    named = {"folder": str(tmp_path), "device": "/dev/zero", "nul": "a\0b", "long": "x" * 5_000}.get(kind, str(path))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(FILE_MOST + 1)
    with pytest.raises(InputError, match="kubeconfig") as refused:
        read_context("", named)

    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "http://api.test"},
        {"insecure-skip-tls-verify": True},
        {"insecure-skip-tls-verify": "false"},
        {"server": "api.test:6443"},
    ],
)
def test_a_server_that_is_not_verified_is_refused(tmp_path: Path, cluster: dict[str, Any]) -> None:
    """No credential would be safe there."""
    with pytest.raises(InputError, match="does not verify its server") as refused:
        read_context("", config(tmp_path / "config", **cluster))

    assert refused.value.code == "not-verified"


def test_an_authority_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    """So is a client's certificate that is none."""
    gone: dict[str, Any] = {"certificate-authority": "gone.pem"}
    with pytest.raises(InputError, match="cannot be used"):
        read_context("", config(tmp_path / "config", **gone))
    (tmp_path / "bad.pem").write_text("no certificate")
    wrong = {"client-certificate": str(tmp_path / "bad.pem"), "client-key": str(tmp_path / "bad.pem")}
    with pytest.raises(InputError, match="cannot be used"):
        read_context("", config(tmp_path / "config", user=wrong))


def test_a_program_may_give_the_token(tmp_path: Path) -> None:
    """As cloud providers' contexts do; where it fails, that is said."""
    given = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "drawn"}}
    program = {"apiVersion": given["apiVersion"], "command": sys.executable, "interactiveMode": "Never"}
    works = {"exec": {**program, "args": ["-c", f"print({json.dumps(given)!r})"]}}
    fails = {"exec": {**program, "args": ["-c", "raise SystemExit(3)"]}}

    assert read_context("", config(tmp_path / "config", user=works)).authorization == "Bearer drawn"
    with pytest.raises(InputError, match="cannot be used"):
        read_context("", config(tmp_path / "config", user=fails))


@pytest.mark.parametrize("command", ["jobs", "nodes", "explain a", "events", "logs a", "cancel a", "submit -- true"])
def test_every_command_says_what_is_wrong_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """And exits with 2, as for any other input."""
    monkeypatch.setenv("KUBECONFIG", config(tmp_path / "config"))
    name, *rest = command.split()
    done = CliRunner().invoke(main, [name, "--server", "kube:lob", *rest])

    assert done.exit_code == 2
    assert done.stderr.startswith("Error: there is no context 'lob' in ")
    assert done.stderr.count("\n") == 1
