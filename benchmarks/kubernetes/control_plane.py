"""A control plane without kubelets: etcd, API server, controller manager and scheduler on free ports of 127.0.0.1.

It owns their arguments, their users and the audit log. It needs no root, and several run side by side. Clients of the
cluster's own components may send 500 requests a second, as in the cluster's own scale tests. No kubelet renews the nodes, so
the node controller waits a day for them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from steepest.errors import ClusterError
from tools.kubernetes_lab.daemons import Daemons

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
ADMIN = "admin"
SCHEDULER = "system:kube-scheduler"
QPS = 500
READY_S = 180.0

_USERS = {
    ADMIN: "system:masters",
    SCHEDULER: "system:authenticated",
    "system:kube-controller-manager": "system:authenticated",
}


class ControlPlane:
    """One control plane.

    Args:
        programs: The folder of what ``make kubernetes-programs`` builds.
        folder: What it keeps; nothing of it outlives the block of :func:`running`.
        users: Whose requests are in the audit log. Those that are not of the control plane are treated as service accounts.

    Attributes:
        folder: What it keeps.
        audit: Its audit log.
        groups: Of each user, separated by commas.
    """

    def __init__(self, programs: Path, folder: Path, users: tuple[str, ...]) -> None:
        self.folder = folder
        self.audit = folder / "audit.log"
        self._programs = programs
        self._users = users
        self._daemons = Daemons(folder / "daemons")
        self.groups = dict.fromkeys(users, "system:serviceaccounts,steepest") | _USERS
        self._tokens = {user: secrets.token_hex(16) for user in self.groups}
        self._api, self._etcd, self._peer = free_ports(3)

    def start(self) -> None:
        """Start everything; returns when the API server is ready.

        Raises:
            ClusterError: A program ends, or the API server is not ready in time.
        """
        self.folder.mkdir(parents=True)
        self._write()
        etcd, peer, own = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}", self.folder
        self._start(
            "etcd",
            *(f"--data-dir={own}/etcd", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            *(f"--initial-cluster=default={peer}", "--unsafe-no-fsync", "--log-level=error"),
            "--quota-backend-bytes=8589934592",
        )
        self._start(
            "kube-apiserver",
            *(f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self._api}"),
            *("--endpoint-reconciler-type=none", f"--cert-dir={own}", f"--token-auth-file={own}/tokens.csv"),
            *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.97.0.0/16"),
            *(
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={own}/accounts.key",
            ),
            *(f"--service-account-signing-key-file={own}/accounts.key", "--kubelet-preferred-address-types=InternalIP"),
            *(f"--audit-policy-file={own}/audit.json", f"--audit-log-path={self.audit}"),
        )
        self._wait()
        limits = (f"--kube-api-qps={QPS}", f"--kube-api-burst={2 * QPS}")
        self._start(
            "kube-controller-manager",
            *(
                f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
                "--leader-elect=false",
                "--secure-port=0",
            ),
            *(
                "--controllers=*,-nodeipam,-cloud-node-lifecycle",
                "--use-service-account-credentials",
                f"--root-ca-file={own}/apiserver.crt",
                *limits,
            ),
            *(f"--service-account-private-key-file={own}/accounts.key", "--concurrent-job-syncs=20"),
            *("--node-monitor-grace-period=24h", "--node-startup-grace-period=24h"),
        )
        self._start("kube-scheduler", f"--config={own}/scheduler.json", "--secure-port=0")

    def stop(self) -> None:
        """End everything."""
        for name in reversed(PROGRAMS):
            self._daemons.kill(name)

    def refuse_unless_runs(self) -> None:
        """Raise the end of a program's log that has ended.

        Raises:
            ClusterError: It has.
        """
        for name in PROGRAMS:
            self._daemons.refuse_unless_runs(name)

    def processes(self) -> dict[str, psutil.Process]:
        """The processes that run, by program."""
        return {name: found for name in PROGRAMS if (found := self._daemons.process(name)) is not None}

    def kubeconfig(self, user: str) -> Path:
        """The file with which a user reaches the API server."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            cluster = {
                "server": f"https://127.0.0.1:{self._api}",
                "certificate-authority": f"{self.folder}/apiserver.crt",
            }
            content = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "bench", "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self._tokens[user]}}],
                "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": user}}],
                "current-context": "bench",
            }
            path.touch(mode=0o600)
            path.write_bytes(msgspec.json.encode(content))
        return path

    def _start(self, name: str, *arguments: str) -> None:
        self._daemons.start(name, [str(self._programs / name), *arguments], env=os.environ)

    def _write(self) -> None:
        lines = [f'{token},{user},{user},"{self.groups[user]}"' for user, token in self._tokens.items()]
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text("\n".join(lines) + "\n")
        audit = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": list(self._users)}, {"level": "None"}],
        }
        scheduler = scheduler_settings(self.kubeconfig(SCHEDULER))
        for name, content in (("audit.json", audit), ("scheduler.json", scheduler)):
            (self.folder / name).write_bytes(msgspec.json.encode(content))
        make = ["openssl", "genrsa", "-out", str(self.folder / "accounts.key"), "2048"]
        subprocess.run(make, check=True, capture_output=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            self._daemons.refuse_unless_runs("etcd")
            self._daemons.refuse_unless_runs("kube-apiserver")
            with contextlib.suppress(OSError):
                trusted = ssl.create_default_context(cafile=str(self.folder / "apiserver.crt"))
                with urllib.request.urlopen(f"https://127.0.0.1:{self._api}/readyz", timeout=5, context=trusted):
                    return
            time.sleep(0.2)
        raise ClusterError(f"the API server is not ready after {READY_S:g} s", code="lab-failed")


def scheduler_settings(kubeconfig: Path) -> dict[str, Any]:
    """The configuration of a scheduler that may send as many requests as the cluster's own components."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": 2 * QPS},
    }


@contextlib.contextmanager
def running(programs: Path, folder: Path, users: tuple[str, ...]) -> Iterator[ControlPlane]:
    """A control plane that runs within the block."""
    plane = ControlPlane(programs, folder, users)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def free_ports(count: int) -> list[int]:
    """Ports that were free just now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def missing(programs: Path) -> str:
    """Why no control plane can run; empty where it can."""
    absent = [name for name in PROGRAMS if not (programs / name).exists()]
    return f"there is no {absent[0]} in {programs}" if absent else ""
