"""One node of the lab: a bridge, a control group, containerd and a kubelet.

It owns what these need of the machine, and gives all of it back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from steepest.errors import ClusterError
from tools.kubernetes_lab import images
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.layout import API_ADDRESS, DOMAIN, LabFolder, LabNode, daemon_environment, search_path

CNI = Path("/usr/lib/cni")
"""Debian's ``containernetworking-plugins``."""

INSTANCES_LEAST = 1024
"""Two kubelets have ten, and every process of Steepest several; the kernel allows 128."""

_GROUPS = Path("/sys/fs/cgroup")
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_ANSWER_S = 180.0
_LEAVE_S = 20.0
_LOGS = Path("/var/log/containers")

_CONTAINERD = """\
version = 3
root = "{folder}/containerd"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[ttrpc]
address = "{folder}/containerd.sock.ttrpc"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{cni}"]
conf_dir = "{folder}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"
# Its socket has one name on a machine: of two that start at the same time, one would end.
[plugins.'io.containerd.nri.v1.nri']
disable = true
"""


def start(folder: LabFolder, daemons: Daemons, node: LabNode, entering: Sequence[str] = ()) -> None:
    """Start the node's containerd and kubelet, with all that they need; nothing that runs is touched.

    Args:
        folder: The lab's.
        daemons: The lab's.
        node: The node.
        entering: What to put before a command so that it runs in the node's own namespaces; empty: it has none.

    Raises:
        ClusterError: Its containerd ends, or does not answer in time.
    """
    own = folder.node(node)
    own.mkdir(parents=True, exist_ok=True)
    make_bridge(node, entering)
    _make_groups(node)
    _allow_watches()
    _write_settings(folder, node)
    daemons.start(
        f"containerd-{node.name}",
        [*entering, folder.program("containerd"), f"--config={own}/containerd.toml"],
        env=daemon_environment(folder),  # containerd finds its shim and runc on PATH
    )
    _wait_for_containerd(folder, daemons, node)  # a kubelet that finds none ends
    start_kubelet(folder, daemons, node, entering)


def _wait_for_containerd(folder: LabFolder, daemons: Daemons, node: LabNode) -> None:
    deadline = time.monotonic() + _ANSWER_S
    while True:
        daemons.refuse_unless_runs(f"containerd-{node.name}")
        asked = subprocess.run([*_ctr(folder, node), "version"], check=False, capture_output=True)
        if not asked.returncode:
            return
        if time.monotonic() > deadline:
            why = asked.stderr.decode(errors="replace")
            raise ClusterError(f"containerd of {node.name} does not answer: {why}", code="lab-failed")
        time.sleep(0.1)


def _ctr(folder: LabFolder, node: LabNode) -> list[str]:
    return [folder.program("ctr"), "-a", f"{folder.node(node)}/containerd.sock", "-n", "k8s.io"]


def start_kubelet(folder: LabFolder, daemons: Daemons, node: LabNode, entering: Sequence[str] = ()) -> None:
    """Start the kubelet alone, for example after it was stopped; ``entering``: as for :func:`start`."""
    own = folder.node(node)
    daemons.start(
        f"kubelet-{node.name}",
        [
            *entering,
            folder.program("kubelet"),
            f"--kubeconfig={own}/kubeconfig",
            f"--config={own}/kubelet.json",
            f"--root-dir={own}/kubelet",
            f"--cert-dir={own}/pki",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
            "--housekeeping-interval=1s",
        ],
        env=daemon_environment(folder),
    )


def import_image(folder: LabFolder, node: LabNode, archive: Path) -> None:
    """Import an image into the node's containerd, unless it has that image.

    Raises:
        ClusterError: Its containerd refuses the image.
    """
    mark, content = folder.node(node) / f"{archive.stem}.imported", images.layers_of(archive)
    if mark.exists() and mark.read_text() == content:
        return
    order = [*_ctr(folder, node), "images", "import", str(archive)]
    imported = subprocess.run(order, check=False, capture_output=True)
    if imported.returncode:
        why = imported.stderr.decode(errors="replace")
        raise ClusterError(f"{archive} is not imported on {node.name}: {why}", code="lab-failed")
    mark.write_text(content)


def stop(folder: LabFolder, daemons: Daemons, node: LabNode) -> None:
    """End the node, its containers, mounts, control groups and bridge. Its files stay."""
    daemons.stop(f"kubelet-{node.name}")
    _kill_groups(node)
    daemons.stop(f"containerd-{node.name}")
    own = folder.node(node)
    _end_shims(own)
    for mount in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
        if Path(mount).is_relative_to(own):
            subprocess.run(["umount", "-l", mount], check=False)
    _remove_groups(node)
    subprocess.run(["ip", "link", "delete", node.bridge], check=False, capture_output=True)
    for rule in _rules(node):
        _iptables("-D", rule)
    for link in _LOGS.glob("*.log") if _LOGS.is_dir() else ():
        if link.is_symlink() and link.readlink().is_relative_to(own):
            link.unlink()


def make_bridge(node: LabNode, entering: Sequence[str] = ()) -> None:
    """Make the node's bridge, at whose address its kubelet and the API server answer; ``entering``: as for :func:`start`."""
    ip = [*entering, shutil.which("ip", path=search_path()) or "ip"]
    if subprocess.run([*ip, "link", "show", node.bridge], check=False, capture_output=True).returncode:
        subprocess.run([*ip, "link", "add", node.bridge, "type", "bridge"], check=True)
    subprocess.run([*ip, "address", "replace", f"{node.address}/24", "dev", node.bridge], check=True)
    subprocess.run([*ip, "link", "set", node.bridge, "up"], check=True)
    subprocess.run([*entering, "/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)
    if entering:
        return  # no engine has rules in a namespace that is the node's own
    # An engine that has turned forwarding on drops what it has not allowed itself, and leaves that behind.
    for rule in _rules(node):
        if not _iptables("-C", rule):
            _iptables("-I", rule)


def _rules(node: LabNode) -> Sequence[Sequence[str]]:
    """What lets its pods reach, and be reached from, the other node and all else that this machine forwards to."""
    return [[side, node.bridge, "-j", "ACCEPT"] for side in ("-i", "-o")]


def _iptables(order: str, rule: Sequence[str]) -> bool:
    """Whether it was done, or with ``-C`` whether the rule is there."""
    program = shutil.which("iptables", path=search_path()) or "iptables"
    return not subprocess.run([program, "-w", order, "FORWARD", *rule], check=False, capture_output=True).returncode


def _allow_watches() -> None:
    """Let all processes of root have more of inotify together: a kubelet that gets none ends."""
    with contextlib.suppress(OSError):
        if int(_INSTANCES.read_text()) < INSTANCES_LEAST:
            _INSTANCES.write_text(str(INSTANCES_LEAST))


def _is_version_2() -> bool:
    return (_GROUPS / "cgroup.controllers").exists()


def _group_paths(node: LabNode) -> list[Path]:
    return [place / node.group for place in ([_GROUPS] if _is_version_2() else sorted(_GROUPS.iterdir()))]


def _make_groups(node: LabNode) -> None:
    for path in _group_paths(node):
        path.mkdir(exist_ok=True)
        if _is_version_2():
            controllers = (path / "cgroup.controllers").read_text().split()
            (path / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
        elif path.parent.name == "cpuset":  # a new group has no cores, and no process can join it
            for name in ("cpuset.cpus", "cpuset.mems"):
                (path / name).write_text((path.parent / name).read_text())


def _kill_groups(node: LabNode) -> None:
    """Kill every process of the node's pods, and wait until they are gone."""
    deadline = time.monotonic() + _LEAVE_S
    while time.monotonic() < deadline:
        pids = {
            pid
            for group in _group_paths(node)
            for place, _, _ in os.walk(group)  # unlike a glob, it does not mind a group that vanishes
            for pid in _read(Path(place, "cgroup.procs")).split()
        }
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        time.sleep(0.05)


def _remove_groups(node: LabNode) -> None:
    for path in _group_paths(node):
        for place, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty, or the kernel has not let go of it yet
                Path(place).rmdir()


def _end_shims(own: Path) -> None:
    """End the shims of containers, which outlive their containerd."""
    import psutil  # noqa: PLC0415 - only a stop needs it

    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words and words[0].endswith("containerd-shim-runc-v2") and f"{own}/containerd.sock" in words:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _write_settings(folder: LabFolder, node: LabNode) -> None:
    own = folder.node(node)
    folder.write_kubeconfig(own / "kubeconfig", node.name)
    (own / "containerd.toml").write_text(_CONTAINERD.format(folder=own, cni=CNI, pause=images.PAUSE))
    network = {
        "cniVersion": "1.0.0",
        "name": node.bridge,
        "plugins": [
            {
                "type": "bridge",
                "bridge": node.bridge,
                "isGateway": True,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{own}/addresses",
                    "ranges": [[{"subnet": f"{node.subnet}.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
    (own / "cni").mkdir(exist_ok=True)
    (own / "cni" / "10-lab.conflist").write_bytes(msgspec.json.encode(network))
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": node.kubelet_port,
        "healthzPort": 0,
        "tlsCertFile": f"{folder.control}/{node.name}.crt",
        "tlsPrivateKeyFile": f"{folder.control}/{node.name}.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": f"{folder.control}/authority.crt"},
        },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.group}",
        # Without it a kubelet looks for containerd at its usual socket, and measures no pod's network elsewhere.
        "featureGates": {"PodAndContainerStatsFromCRI": True},
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "enforceNodeAllocatable": [],
        "systemReserved": {"cpu": f"{node.reserved_cpu_m}m"},
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,  # no registry has the images, and the disk is the machine's own
        "containerRuntimeEndpoint": f"unix://{own}/containerd.sock",
        "podLogsDir": f"{own}/logs",
        "containerLogMonitorInterval": "3s",  # tests wait for a rotation
        "clusterDNS": [API_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": f"{own}/resolv.conf",
    }
    (own / "resolv.conf").write_text(f"nameserver {API_ADDRESS}\n")
    (own / "kubelet.json").write_bytes(msgspec.json.encode(settings))
