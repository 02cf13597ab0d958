"""What else runs on a turn's control plane, started as the lab starts users' controllers: with kubectl and as daemons.

It owns their folder and their process. It must never know what they do.
"""

from __future__ import annotations

import asyncio
import shutil
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import psutil
from benchmarks.kubernetes.contenders import Contender, Stage
from benchmarks.kubernetes.control_plane import ADMIN

from tools.kubernetes_lab.controllers import missing_program
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.kubectl import kubectl
from tools.kubernetes_lab.layout import LabFolder


class PlaneHost:
    """The host of one program; see ``tools.kubernetes_lab.controllers.ControllerHost``.

    Args:
        stage: Where it runs.
        name: The program, which is also the user that sends its requests.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.folder = LabFolder(stage.folder / "beside", stage.programs)
        self.daemons = Daemons(self.folder.daemons)
        self._stage = stage
        self._name = name

    def open(self) -> None:
        """Make the folder, with the file by which the program reaches the API server."""
        self.folder.run.mkdir(parents=True)
        shutil.copy(self._stage.plane.kubeconfig(self._name), self.folder.kubeconfig)

    def kubectl(self, *arguments: str, content: object = None) -> str:
        """See ``ControllerHost.kubectl``."""
        admin = self._stage.plane.kubeconfig(ADMIN)
        return kubectl(self.folder.program("kubectl"), admin, *arguments, content=content)

    def processes(self) -> Mapping[str, psutil.Process]:
        """Its process.

        Raises:
            ClusterError: It has ended.
        """
        self.daemons.refuse_unless_runs(self._name)
        process = self.daemons.process(self._name)
        return {} if process is None else {self._name: process}

    def close(self) -> None:
        """End it."""
        self.daemons.kill(self._name)


class HostedContender(Contender):
    """A contender that is one program beside the control plane; its requests are those of a user of the same name.

    Attributes:
        host: Where the program runs.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.host = PlaneHost(stage, self.name)

    @classmethod
    def missing(cls, programs: Path) -> str:
        """See ``Contender.missing``."""
        return missing_program(LabFolder(programs, programs), cls.name)

    async def start(self) -> None:
        """See ``Contender.start``.

        Raises:
            ClusterError: It ends, or is not ready in time.
        """
        self.host.open()
        await asyncio.to_thread(self.begin)

    @abstractmethod
    def begin(self) -> None:
        """Start the program, and make what it needs; it blocks."""

    def processes(self) -> Mapping[str, psutil.Process]:
        """See ``Contender.processes``."""
        return self.host.processes()

    async def stop(self) -> None:
        """See ``Contender.stop``."""
        self.host.close()
