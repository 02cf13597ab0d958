"""The lab's control plane: etcd, API server, controller manager, scheduler, DNS, and the addresses of Services.

It owns their arguments and the order in which they start. It must never know nodes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
import time
from pathlib import Path

import msgspec

from steepest.errors import ClusterError
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.layout import (
    API_ADDRESS,
    API_PORT,
    DNS_PORT,
    DOMAIN,
    ETCD_PEER_PORT,
    ETCD_PORT,
    NODES,
    SERVICES,
    LabFolder,
    daemon_environment,
)

READY_S = 180.0
"""How long to wait for the API server: 4 s on two idle cores."""

ADMIN = "admin"
NAMES = ("kube-proxy", "coredns", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
"""In the order in which they stop."""

_AUDIT = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: coordination.k8s.io}, {group: "", resources: [events]}, {group: events.k8s.io}]
- level: Request  # what a kubelet says of a pod is when its process has ended
  verbs: [patch]
  resources: [{group: "", resources: [pods/status]}]
- level: Metadata
"""

_DNS = """\
{domain}:{port} {{
    bind {address}
    kubernetes {domain} {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
"""


def start(folder: LabFolder, daemons: Daemons) -> None:
    """Start what does not run yet, and wait until the API server is ready.

    Raises:
        ClusterError: A daemon ends, or the API server is not ready in time.
    """
    control, env = folder.control, daemon_environment(folder)
    control.mkdir(parents=True, exist_ok=True)
    _write_settings(folder)
    etcd = f"http://127.0.0.1:{ETCD_PORT}"
    peer = f"http://127.0.0.1:{ETCD_PEER_PORT}"
    daemons.start(
        "etcd",
        [
            folder.program("etcd"),
            f"--data-dir={control}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ],
        env=env,
    )
    start_api_server(folder, daemons)
    wait_until_ready(folder, daemons)
    admin = str(folder.kubeconfig)
    daemons.start(
        "kube-controller-manager",
        [
            folder.program("kube-controller-manager"),
            f"--kubeconfig={admin}",
            "--controllers=*,-nodeipam,-cloud-node-lifecycle",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={control}/service-account.key",
            f"--root-ca-file={control}/authority.crt",
            "--leader-elect=false",
        ],
        env=env,
    )
    daemons.start(
        "kube-scheduler", [folder.program("kube-scheduler"), f"--kubeconfig={admin}", "--leader-elect=false"], env=env
    )
    daemons.start("coredns", [folder.program("coredns"), "-conf", f"{control}/Corefile"], env=env)
    # Both nodes are in this machine's network, so one proxy serves both.
    daemons.start("kube-proxy", [folder.program("kube-proxy"), f"--config={control}/proxy.json"], env=env)


def forget_services(folder: LabFolder) -> None:
    """Remove the rules of Services from this machine; kube-proxy and the kubelets have ended."""
    orders = [[folder.program("kube-proxy"), "--cleanup"]]
    # A kubelet makes this chain, and no program removes it.
    for rule in (("-D", "INPUT", "-j"), ("-D", "OUTPUT", "-j"), ("-F",), ("-X",)):
        orders += [[program, "-w", *rule, "KUBE-FIREWALL"] for program in ("iptables", "ip6tables")]
    for order in orders:
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(order, check=False, capture_output=True, env=daemon_environment(folder))


def start_api_server(folder: LabFolder, daemons: Daemons) -> None:
    """Start the API server alone, for example after it was killed."""
    control = folder.control
    daemons.start(
        "kube-apiserver",
        [
            folder.program("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
            "--bind-address=0.0.0.0",
            f"--secure-port={API_PORT}",
            f"--advertise-address={API_ADDRESS}",
            "--endpoint-reconciler-type=master-count",
            f"--cert-dir={control}",
            f"--kubelet-client-certificate={control}/apiserver.crt",
            f"--kubelet-client-key={control}/apiserver.key",
            f"--kubelet-certificate-authority={control}/authority.crt",
            f"--token-auth-file={control}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            f"--service-cluster-ip-range={SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={control}/service-account.key",
            f"--service-account-key-file={control}/service-account.key",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={control}/audit.yaml",
            f"--audit-log-path={folder.audit}",
        ],
        env=daemon_environment(folder),
    )


def wait_until_ready(folder: LabFolder, daemons: Daemons) -> None:
    """Wait until the API server is ready.

    Raises:
        ClusterError: It ends, or is not ready in time.
    """
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        daemons.refuse_unless_runs("etcd")
        daemons.refuse_unless_runs("kube-apiserver")
        asked = _kubectl(folder, "get", "--raw", "/readyz")
        if not asked.returncode:
            return
        time.sleep(0.2)
    why = asked.stderr.decode(errors="replace")
    raise ClusterError(f"the API server is not ready after {READY_S:g} s: {why}", code="lab-failed")


def _kubectl(folder: LabFolder, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    order = [folder.program("kubectl"), f"--kubeconfig={folder.kubeconfig}", *arguments]
    return subprocess.run(order, check=False, capture_output=True)


def _write_settings(folder: LabFolder) -> None:
    control = folder.control
    lines = [f"{folder.token(ADMIN)},{ADMIN},{ADMIN},system:masters"]
    lines += [f"{folder.token(node.name)},system:node:{node.name},{node.name},system:nodes" for node in NODES]
    tokens = control / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text("\n".join(lines) + "\n")
    folder.write_kubeconfig(folder.kubeconfig, ADMIN)
    (control / "audit.yaml").write_text(_AUDIT)
    (control / "Corefile").write_text(
        _DNS.format(domain=DOMAIN, port=DNS_PORT, address=API_ADDRESS, kubeconfig=folder.kubeconfig)
    )
    proxy = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(folder.kubeconfig)},
        "hostnameOverride": NODES[0].name,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # A pod reaches its neighbour on one bridge through a Service only if the answer comes back through this machine.
        "iptables": {"masqueradeAll": True},
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
    (control / "proxy.json").write_bytes(msgspec.json.encode(proxy))
    key = control / "service-account.key"
    if not key.exists():
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        _certify(control)


def _certify(control: Path) -> None:
    """Make the cluster's authority, and what it vouches for: the API server, as server and as client, and the kubelets."""
    service = f"IP:{API_ADDRESS},IP:127.0.0.1,IP:{ipaddress.ip_network(SERVICES)[1]},DNS:kubernetes.default.svc"
    named = {
        "authority": ("/CN=authority", ""),
        "apiserver": ("/O=system:masters/CN=kube-apiserver", service),
        **{each.name: (f"/CN={each.name}", f"IP:{each.address}") for each in NODES},
    }
    vouched = ["-CA", f"{control}/authority.crt", "-CAkey", f"{control}/authority.key"]
    for name, (subject, names) in named.items():
        order = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj"]
        order += [subject, "-keyout", f"{control}/{name}.key", "-out", f"{control}/{name}.crt"]
        said = (f"subjectAltName={names}", "basicConstraints=critical,CA:FALSE") if names else ("keyUsage=keyCertSign",)
        order += [*(vouched if names else ()), *(word for each in said for word in ("-addext", each))]
        subprocess.run(order, check=True, capture_output=True)
