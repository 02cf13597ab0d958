"""An API server over etcd, without nodes and controllers: real objects, rights and proxies, on ports of its own.

What a controller or a node would write is written by the test.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tools.kubernetes_lab.layout import LabFolder, default_folder

READY_S = 180.0
NAMESPACE = "training"
Object = dict[str, Any]


class BareControlPlane:
    """A control plane in a folder.

    Args:
        programs: Where etcd, kube-apiserver and kubectl are.
        folder: An empty folder.
    """

    def __init__(self, programs: LabFolder, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._tokens: dict[str, str] = {}
        self._running: list[subprocess.Popen[bytes]] = []
        self._port = 0

    @property
    def certificates(self) -> Path:
        """Where the API server has made its own: ``apiserver.crt`` and ``apiserver.key``."""
        return self._folder / "certificates"

    def start(self, *users: str) -> None:
        """Start it; ``admin`` may do all, and these users nothing. Returns when it is ready, with the namespace."""
        self._tokens = {user: secrets.token_hex(16) for user in ("admin", *users)}
        lines = [
            f"{token},{user},{user},{'system:masters' * (user == 'admin')}" for user, token in self._tokens.items()
        ]
        (self._folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        key = str(self._folder / "accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        client, peer, self._port = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        self._run(
            "etcd",
            f"--data-dir={self._folder}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--cert-dir={self.certificates}",
            f"--token-auth-file={self._folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.97.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
            "--disable-admission-plugins=ServiceAccount",
            "--kubelet-preferred-address-types=InternalIP",
        )
        deadline = time.monotonic() + READY_S
        while self._kubectl("get", "--raw", "/readyz").returncode:
            assert all(each.poll() is None for each in self._running), self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def stop(self) -> None:
        """End it."""
        for each in reversed(self._running):
            each.kill()
            each.wait()

    def kubeconfig_of(self, user: str) -> Path:
        """The file with which a user reaches it."""
        trust = {"certificate-authority": str(self.certificates / "apiserver.crt"), "tls-server-name": "kubernetes"}
        server = {"server": f"https://127.0.0.1:{self._port}", **trust}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bare", "cluster": server}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": user, "namespace": NAMESPACE}}],
            "current-context": "bare",
        }
        path = self._folder / f"{user}.kubeconfig"
        path.write_bytes(msgspec.json.encode(content))
        return path

    def kubectl(self, *arguments: str, content: object = None) -> str:
        """What kubectl prints, in the namespace."""
        done = self._kubectl("-n", NAMESPACE, *arguments, content=content)
        assert not done.returncode, done.stderr.decode()
        return done.stdout.decode()

    def apply(self, *objects: Object) -> None:
        """Make or change objects; a ``status`` is written like a controller's."""
        for each in objects:
            self.kubectl("apply", "--validate=false", "-f", "-", content=each)
            if "status" in each:
                patch = msgspec.json.encode({"status": each["status"]}).decode()
                named = (each["kind"].lower(), each["metadata"]["name"])
                self.kubectl("patch", *named, "--subresource=status", "--type=merge", f"--patch={patch}")

    def said(self) -> str:
        """What its programs have said last."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.log"))

    def _run(self, program: str, *arguments: str) -> None:
        with (self._folder / f"{program}.log").open("ab") as output:
            order = [self._programs.program(program), *arguments]
            self._running.append(subprocess.Popen(order, stdout=output, stderr=output, env=dict(os.environ)))

    def _kubectl(self, *arguments: str, content: object = None) -> subprocess.CompletedProcess[bytes]:
        order = [self._programs.program("kubectl"), f"--kubeconfig={self.kubeconfig_of('admin')}", *arguments]
        given = None if content is None else msgspec.json.encode(content)
        return subprocess.run(order, input=given, capture_output=True, check=False)


@contextlib.contextmanager
def running_control_plane(folder: Path, *users: str) -> Iterator[BareControlPlane]:
    """A control plane within the block, or a skip where its programs are missing."""
    programs = default_folder()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        if not Path(programs.program(name)).exists():
            pytest.skip(f"there is no {name} in {programs.programs}; get it with: make kubernetes-programs")
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl; get it with: apt-get install openssl")
    made = BareControlPlane(programs, folder)
    try:
        made.start(*users)
        yield made
    finally:
        made.stop()


def free_ports(count: int) -> list[int]:
    """Ports that no process listens on now."""
    with contextlib.ExitStack() as stack:
        trials = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in trials:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in trials]


def own_address() -> str:
    """An address of this machine that is not the loopback's: an API server proxies to no loopback."""
    for each in (one for found in psutil.net_if_addrs().values() for one in found):
        if each.family is socket.AF_INET and not ipaddress.ip_address(each.address).is_loopback:
            return str(each.address)
    pytest.skip("this machine has no address but the loopback's")
