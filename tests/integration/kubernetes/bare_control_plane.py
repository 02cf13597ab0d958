"""An API server over etcd, without nodes and controllers: real objects, rights and proxies, on ports of its own.

What a controller or a node would write is written by the test; a small server stands for a kubelet that has a pod's output.
"""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import psutil
import pytest

from steepest.kubernetes_lab.layout import LabFolder, default_folder

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


class KubeletStub(http.server.ThreadingHTTPServer):
    """Has the output of containers, as a kubelet serves it to the API server.

    Args:
        folder: With ``apiserver.crt`` and ``apiserver.key``, which any kubelet may have here.

    Attributes:
        printed: The output of each pod.
        ended: The pods that add nothing more.
        asked: The query of each request, with the pod and its container.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _ContainerLog)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.printed: dict[str, bytes] = {}
        self.ended: set[str] = set()
        self.asked: list[Mapping[str, str]] = []
        self.news = threading.Condition()
        self._serving = threading.Thread(target=self.serve_forever, daemon=True)
        self._serving.start()

    def add(self, pod: str, text: bytes, *, ended: bool = False) -> None:
        """A container prints, and may end then."""
        with self.news:
            self.printed[pod] = self.printed.get(pod, b"") + text
            if ended:
                self.ended.add(pod)
            self.news.notify_all()

    def await_follower(self) -> None:
        """Return once somebody follows a container."""
        with self.news:
            assert self.news.wait_for(lambda: any("follow" in each for each in self.asked), 60)

    def end(self) -> None:
        """Stop serving."""
        with self.news:
            self.ended |= set(self.printed)
            self.news.notify_all()
        self.shutdown()
        self.server_close()
        self._serving.join()


class _ContainerLog(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubeletStub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """``/containerLogs/NAMESPACE/POD/CONTAINER``."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        *_, pod, container = url.path.split("/")
        with self.server.news:
            self.server.asked.append({**query, "pod": pod, "container": container})
            self.server.news.notify_all()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        text, sent = self.server.printed.get(pod, b""), 0
        if "tailLines" in query:
            lines = text.splitlines(keepends=True)
            sent = len(text) - sum(map(len, lines[max(len(lines) - int(query["tailLines"]), 0) :]))
        while True:
            with self.server.news:
                chunk = self.server.printed.get(pod, b"")[sent:]
                is_over = query.get("follow") != "true" or pod in self.server.ended
                if not chunk and not is_over:
                    self.server.news.wait(60)
                    continue
            if chunk:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
                sent += len(chunk)
            elif is_over:
                self.wfile.write(b"0\r\n\r\n")
                return


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
