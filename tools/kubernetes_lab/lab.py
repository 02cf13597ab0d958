"""A cluster of two real nodes on this machine: starts it, provides what jobs need in it, and ends it without a trace.

It owns the order of these steps. It needs root, and what ``make kubernetes`` builds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from steepest.errors import ClusterError, InputError
from tools.kubernetes_lab import control_plane, images, link, node, service_images
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.kubectl import kubectl
from tools.kubernetes_lab.layout import (
    CLAIM,
    CONTROLLERS,
    NAMESPACE,
    NODES,
    PROGRAMS,
    LabFolder,
    LabNode,
    search_path,
)
from tools.kubernetes_lab.link import MEMBER, NodeLink

READY_S = 180.0
"""How long to wait for nodes: 10 s on two idle cores."""

_REMOVERS = 32


class KubernetesLab:
    """The lab of a folder.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: LabFolder) -> None:
        self.folder = folder
        self.daemons = Daemons(folder.daemons)
        self.link = NodeLink(folder, self.daemons)

    @property
    def runs(self) -> bool:
        """Whether its API server runs."""
        return self.daemons.process("kube-apiserver") is not None

    def start(self) -> None:
        """Start what does not run yet; returns when both nodes are ready and the namespace has its volume.

        Raises:
            InputError: Something is missing.
            ClusterError: A daemon ends, or is not ready in time.
        """
        if why := missing(self.folder):
            raise InputError(why, code="no-kubernetes", hint="make kubernetes")
        archives = images.make(self.folder)
        self.folder.run.mkdir(parents=True, exist_ok=True)
        for each in NODES:
            node.make_bridge(each, self._entering(each))
        control_plane.start(self.folder, self.daemons)
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._start_node, NODES))
        self._import(archives)
        self._provide()
        self._wait_for_nodes()

    def join_by_link(self) -> None:
        """Start the second node again as a machine of its own, at the far end of a link; what ran there has ended.

        Raises:
            InputError: Something is missing for it.
            ClusterError: The node is not ready in time.
        """
        if why := link.missing():
            raise InputError(why, code="no-link", hint="make links")
        if not self.link.is_made:
            node.stop(self.folder, self.daemons, MEMBER)
            self.link.make()
        self.start()

    def part_from_link(self) -> None:
        """Start the second node again on this machine's own network; what ran there has ended.

        Raises:
            ClusterError: The node is not ready in time.
        """
        node.stop(self.folder, self.daemons, MEMBER)
        self.link.close()
        self.start()

    def _entering(self, each: LabNode) -> Sequence[str]:
        return self.link.entering() if each is MEMBER and self.link.is_made else ()

    def _start_node(self, each: LabNode) -> None:
        node.start(self.folder, self.daemons, each, self._entering(each))

    def stop(self) -> None:
        """End everything and remove its files."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: node.stop(self.folder, self.daemons, each), NODES))
        self.link.close()
        for name in (*CONTROLLERS, *control_plane.NAMES):
            self.daemons.kill(name)  # what they would save or wait for is removed
        control_plane.forget_services(self.folder)
        remove_tree(self.folder.run)

    def provide_services(self) -> None:
        """Give both nodes the images of the services and of Kafka.

        Raises:
            InputError: They cannot be made.
        """
        self._import(service_images.make(self.folder))

    def kubectl(self, *arguments: str, content: object = None) -> str:
        """What kubectl prints; ``content`` is an object for ``-f -``.

        Raises:
            ClusterError: It failed.
        """
        return kubectl(self.folder.program("kubectl"), self.folder.kubeconfig, *arguments, content=content)

    def kubeconfig_of(self, account: str) -> Path:
        """A file with which to act as a service account of the namespace, for a day.

        Raises:
            ClusterError: There is no such account.
        """
        token = self.kubectl("-n", NAMESPACE, "create", "token", account, "--duration=24h").strip()
        return self.folder.write_kubeconfig(self.folder.run / f"{account}.kubeconfig", account, token)

    def _import(self, archives: Sequence[Path]) -> None:
        def to(each: LabNode) -> None:
            for archive in archives:
                node.import_image(self.folder, each, archive)

        with ThreadPoolExecutor() as pool:
            list(pool.map(to, NODES))

    def _provide(self) -> None:
        """Make the namespace, with a claim of a volume that all nodes share."""
        self.folder.volume.mkdir(parents=True, exist_ok=True)
        self.folder.volume.chmod(0o1777)  # services in pods are not root, and no volume of this kind is given to them
        volume = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "hostPath": {"path": str(self.folder.volume)},
            "claimRef": {"namespace": NAMESPACE, "name": CLAIM},
        }
        claim = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "volumeName": "shared",
            "resources": {"requests": {"storage": "10Gi"}},
        }
        self.kubectl(
            "apply",
            "-f",
            "-",
            content={
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared"}, "spec": volume},
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
                        "spec": claim,
                    },
                ],
            },
        )

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + READY_S
        waited: list[tuple[str, ...]] = [("--for=condition=Ready", f"node/{each.name}") for each in NODES]
        waited.append(("--for=create", "serviceaccount/default", "-n", NAMESPACE))
        for arguments in waited:
            while True:
                for name in (f"{daemon}-{each.name}" for each in NODES for daemon in ("containerd", "kubelet")):
                    self.daemons.refuse_unless_runs(name)
                try:
                    self.kubectl("wait", "--timeout=10s", *arguments)
                    break
                except ClusterError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)


def missing(folder: LabFolder) -> str:
    """Why no lab can run here; empty where it can."""
    if absent := [name for name in PROGRAMS if not Path(folder.program(name)).exists()]:
        return f"there is no {absent[0]} in {folder.programs}"
    if not (node.CNI / "bridge").exists() or shutil.which("runc", path=search_path()) is None:
        return "this machine lacks runc or the CNI plugins"
    if os.geteuid():
        return "two nodes on one machine need root"
    return images.missing()


def remove_tree(top: Path) -> None:
    """Remove a folder with many files; what cannot be removed stays.

    Where a file system discards what is freed, a removal takes milliseconds, and only many side by side are fast: the images
    of two nodes have 37,000 files.
    """
    folders: list[str] = []
    files: list[str] = []
    for place, below, names in os.walk(top):
        links = [name for name in below if Path(place, name).is_symlink()]
        folders.append(place)
        files += [os.path.join(place, name) for name in (*names, *links)]  # noqa: PTH118 - there are many
    with ThreadPoolExecutor(_REMOVERS) as pool:
        list(pool.map(_remove_file, files))
    for place in reversed(folders):
        with contextlib.suppress(OSError):
            Path(place).rmdir()


def _remove_file(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()


@contextlib.contextmanager
def running_lab(folder: LabFolder) -> Iterator[KubernetesLab]:
    """The lab of a folder: one that runs is used and left as it is, else one runs within the block."""
    lab = KubernetesLab(folder)
    found = lab.runs
    try:
        lab.start()
        yield lab
    finally:
        if not found:
            lab.stop()
