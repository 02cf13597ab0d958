"""Where the lab keeps its files, and which addresses and ports it uses.

It owns these names. One lab runs on a machine at a time, because its bridges and ports are fixed.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

NAMESPACE = "steepest"
"""The namespace that the lab makes for jobs."""

CLAIM = "steepest"
"""The claim of the shared volume in that namespace."""

API_PORT = 16443
ETCD_PORT = 12379
ETCD_PEER_PORT = 12380
DNS_PORT = 53
SERVICES = "10.96.0.0/16"
DOMAIN = "cluster.local"

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "coredns",
    "pause",
)
"""What ``make kubernetes`` builds."""

JOB_SET = "jobset"
TRAINER = "trainer"
TRAINING_OPERATOR = "training-operator"
KUEUE = "kueue"
CONTROLLERS = (KUEUE, TRAINER, TRAINING_OPERATOR, JOB_SET)
"""The controllers of users' objects, which run for their tests alone."""


class LabNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node.

    Attributes:
        name: Its name.
        bridge: Its bridge on this machine.
        subnet: The first three numbers of its pods' addresses; the bridge has the address ``.1``.
        kubelet_port: The kubelet's port.
        reserved_cpu_m: CPU that its pods may not have, in millicores, so that nodes differ in size.
    """

    name: str
    bridge: str
    subnet: str
    kubelet_port: int
    reserved_cpu_m: int

    @property
    def address(self) -> str:
        """The node's address."""
        return f"{self.subnet}.1"

    @property
    def group(self) -> str:
        """The control group of all that runs on it."""
        return f"steepest-{self.name}"


NODES = (
    LabNode(name="node-a", bridge="steepest-a", subnet="10.88.1", kubelet_port=10250, reserved_cpu_m=100),
    LabNode(name="node-b", bridge="steepest-b", subnet="10.88.2", kubelet_port=10260, reserved_cpu_m=900),
)
API_ADDRESS = NODES[0].address


class LabFolder:
    """``.kubernetes``: programs, images, and everything that a running lab has.

    Args:
        path: The folder.
        programs: Where the programs are, if they are not in it.
    """

    def __init__(self, path: Path, programs: Path | None = None) -> None:
        self.path = path.resolve()
        self.programs = self.path / "bin" if programs is None else programs.resolve()
        self.images = self.path / "images"
        self.run = self.path / "run"
        self.daemons = self.run / "daemons"
        self.control = self.run / "control"
        self.kubeconfig = self.run / "kubeconfig"
        self.volume = self.run / "volume"
        self.audit = self.control / "audit.log"

    def program(self, name: str) -> str:
        """The path of a program."""
        return str(self.programs / name)

    def node(self, node: LabNode) -> Path:
        """A node's own folder."""
        return self.run / node.name

    def token(self, user: str) -> str:
        """A user's token, drawn when it is first asked for."""
        path = self.control / f"{user}.token"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(16))
        return path.read_text()

    def write_kubeconfig(self, path: Path, user: str, token: str = "") -> Path:
        """Write the file with which a user reaches the API server; without a token, with the user's own."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": f"https://{API_ADDRESS}:{API_PORT}",
                        "certificate-authority": str(self.control / "authority.crt"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token or self.token(user)}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user, "namespace": NAMESPACE}}],
            "current-context": "lab",
        }
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(content))
        return path


def default_folder() -> LabFolder:
    """``$STEEPEST_KUBERNETES_HOME`` or ``.kubernetes``."""
    return LabFolder(Path(os.environ.get("STEEPEST_KUBERNETES_HOME", ".kubernetes")))


def search_path() -> str:
    """PATH, with the folders of the system's administrator."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def daemon_environment(folder: LabFolder) -> dict[str, str]:
    """The environment of a node's daemons."""
    return {**os.environ, "PATH": f"{folder.programs}:{search_path()}"}
