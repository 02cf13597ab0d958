"""The controllers of users' objects in the lab, each with its webhooks.

It owns how one is started and ended, and that the API server asks its webhooks on this machine. It must never make an object
of a kind of theirs.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
import yaml

from steepest.errors import ClusterError
from tools.kubernetes_lab.control_plane import READY_S
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.layout import LabFolder, daemon_environment

HOST = "127.0.0.1"
"""The API server is in this machine's network, and asks webhooks there."""

_LOOK_S = 0.2


class ControllerHost(Protocol):
    """Where a controller runs: the lab, or another control plane on this machine.

    Attributes:
        folder: It has the programs, and ``run`` is for files of controllers.
        daemons: Among which a controller is started.
    """

    folder: LabFolder
    daemons: Daemons

    def kubectl(self, *arguments: str, content: object = None) -> str:
        """What kubectl prints, as an administrator; ``content`` is an object for ``-f -``.

        Raises:
            ClusterError: It failed.
        """


class LabController(ABC):
    """One of them.

    Attributes:
        name: Of its program, and of the target that builds it.
        plurals: The kinds of its objects, which the API server must know before it starts.
        port: Where the API server asks its webhooks.
        hosts: Names that its certificate has as well.
    """

    name: ClassVar[str]
    plurals: ClassVar[tuple[str, ...]]
    port: int
    hosts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def arguments(self, lab: ControllerHost, own: Path) -> list[str]:
        """What it is started with. Its certificate is in ``own`` then, as ``tls.crt`` with ``tls.key``."""

    @abstractmethod
    def probe(self) -> dict[str, Any]:
        """An object that it would take once it answers."""

    def environment(self, own: Path) -> dict[str, str]:
        """Variables that it needs."""
        del own
        return {}

    def narrowed(self, webhook: dict[str, Any]) -> dict[str, Any] | None:
        """A webhook as it is registered; None: it is left out."""
        return webhook

    def kind(self, found: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """The definition of a kind as it is made known; ``asked`` is how the API server asks the controller."""
        del asked
        return found

    def registered_as(self, name: str) -> str:
        """The name of a configuration of webhooks: as others bring theirs, all have the same one."""
        return f"{self.name}-{name}"

    def missing(self, folder: LabFolder) -> str:
        """Why it cannot run here; empty where it can."""
        return missing_program(folder, self.name)

    def start(self, lab: ControllerHost) -> None:
        """Make its kinds known to the API server, and start it; returns when it takes objects.

        Raises:
            ClusterError: It ends, or is not ready in time.
        """
        folder, own = lab.folder, lab.folder.run / self.name
        own.mkdir(parents=True, exist_ok=True)
        self._certify(own)
        for each in self._parts(folder, "crd"):
            lab.kubectl("apply", "--server-side", "-f", "-", content=self.kind(each, self._asked(own, "/convert")))
        for plural in self.plurals:
            _until_it_works(lambda: lab.kubectl("get", plural, "--all-namespaces"))  # noqa: B023 - asked immediately
        command = [folder.program(self.name), *self.arguments(lab, own)]
        lab.daemons.start(self.name, command, env={**daemon_environment(folder), **self.environment(own)})
        for each in self._webhooks(folder, own):
            lab.kubectl("apply", "-f", "-", content=each)
        _until_it_works(
            lambda: lab.kubectl("create", "--dry-run=server", "-f", "-", content=self.probe()),
            lambda: lab.daemons.refuse_unless_runs(self.name),
        )

    def stop(self, lab: ControllerHost) -> None:
        """Remove its kinds with all of their objects, and end it."""
        for each in (*self._parts(lab.folder, "crd"), *self._webhooks(lab.folder, lab.folder.run / self.name)):
            lab.kubectl("delete", "--ignore-not-found", "-f", "-", content=each)
        lab.daemons.stop(self.name)

    def configured(self, lab: ControllerHost, own: Path, settings: dict[str, Any]) -> list[str]:
        """The arguments of a controller that has its settings in a file, which is written."""
        (own / "config.json").write_bytes(msgspec.json.encode(settings))
        return [f"--config={own}/config.json", f"--kubeconfig={lab.folder.kubeconfig}"]

    def serve_certificate(self, own: Path, folder: Path) -> None:
        """Put the certificate into a folder that a controller does not let one choose."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tls.crt", "tls.key"):
            shutil.copy(own / name, folder / name)

    def keep_certificate(self, lab: ControllerHost, own: Path, namespace: str, secret: str) -> None:
        """Put the certificate where a controller looks for it that makes another one if it does not find one."""
        certificate, key = (base64.b64encode((own / name).read_bytes()).decode() for name in ("tls.crt", "tls.key"))
        kept = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": namespace},
            "data": {"ca.crt": certificate, "ca.key": key, "tls.crt": certificate, "tls.key": key},
        }
        lab.kubectl(
            "apply", "-f", "-", content={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        lab.kubectl("apply", "-f", "-", content=kept)

    def _parts(self, folder: LabFolder, which: str) -> list[dict[str, Any]]:
        """Objects that it needs: its ``crd``, or its ``webhooks`` as they are in a cluster of its own."""
        text = Path(folder.program(f"{self.name}-{which}.yaml")).read_text()
        return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]

    def _certify(self, own: Path) -> None:
        if not (own / "tls.crt").exists():
            order = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "365", "-subj", "/CN=lab"]
            names = ",".join((f"IP:{HOST}", *(f"DNS:{each}" for each in self.hosts)))
            order += ["-addext", f"subjectAltName={names}", "-keyout", f"{own}/tls.key", "-out", f"{own}/tls.crt"]
            subprocess.run(order, check=True, capture_output=True)
            order = ["openssl", "rsa", "-traditional", "-in", f"{own}/tls.key", "-out", f"{own}/tls.key"]
            subprocess.run(order, check=True, capture_output=True)  # the only form of a key that some of them read

    def _webhooks(self, folder: LabFolder, own: Path) -> list[dict[str, Any]]:
        """Its webhooks, as it brings them, asked at this machine."""
        found = self._parts(folder, "webhooks")
        for configuration in found:
            configuration["metadata"]["name"] = self.registered_as(configuration["metadata"]["name"])
            narrowed = (self.narrowed(webhook) for webhook in configuration["webhooks"])
            configuration["webhooks"] = [webhook for webhook in narrowed if webhook is not None]
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = self._asked(own, path)
        return found

    def _asked(self, own: Path, path: str) -> dict[str, Any]:
        authority = base64.b64encode((own / "tls.crt").read_bytes()).decode()
        return {"url": f"https://{HOST}:{self.port}{path}", "caBundle": authority}


def missing_program(folder: LabFolder, name: str) -> str:
    """Why there is no program of a controller, and which command gets it; empty where there is one."""
    if Path(folder.program(name)).exists():
        return ""
    unserved = Path(folder.program(f"{name}.unserved"))
    if unserved.exists():
        return f"a module of {name} is not served: {unserved.read_text()[-500:].strip()}"
    return f"there is no {name} in {folder.programs}; get it with: make {name}"


def _until_it_works(act: Callable[[], object], may: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        may()
        try:
            act()
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_S)
        else:
            return
