"""Docker engines under the contract suite, and what else tests of the Docker adapter share.

It owns two engines of different sizes and the adapter over them. Images are those of ``make images``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import psutil
from docker.errors import APIError
from tests.harness.contracts import contract_job
from tests.harness.contracts.cluster_harness import ClusterHarness

from steepest.cluster.docker import Allowed, DockerCluster, DockerNode
from steepest.cluster.docker.container import LABEL, name_of
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, missing, running_engine

SIZES_M = {"large": 800, "small": 400}


@contextlib.contextmanager
def running_engines(folder: Path) -> Iterator[dict[str, DockerEngine]]:
    """An engine of each size, with the base image.

    Raises:
        InputError: There is no image.
    """
    with contextlib.ExitStack() as stack:
        engines = {}
        for node, cpu_m in SIZES_M.items():
            engines[node] = stack.enter_context(running_engine(folder / node, cpu_m=cpu_m))
            with contextlib.closing(engines[node].client()) as client:
                images.provide(client, images.default_folder())
        yield engines


def why_not() -> str:
    """Why there can be no engines here, with the command that gets what is missing; empty where there can."""
    if why := missing():
        return f"{why}; get it with: make engine"
    if why := images.missing(images.default_folder()):
        return f"{why}; get it with: make images"
    return ""


class DockerHarness(ClusterHarness):
    """Engines of one's own as nodes.

    Args:
        engines: Node to engine.
    """

    def __init__(self, state_dir: Path, engines: Mapping[str, DockerEngine]) -> None:
        self.nodes = {node: Resources(cpu_m=cpu_m, memory_mib=512) for node, cpu_m in SIZES_M.items()}
        self.pool = "test"
        self.caps_memory = self.confines = True
        self.engines = engines
        self.state = AdapterFolder(state_dir)
        self.allowed = Allowed.named([Path(contract_job.__file__).parent], state_dir)
        self._zombies: list[DockerCluster] = []

    def job(self, *arguments: str) -> ReplicaSpec:
        """The contract's job, under the image's Python; its folder is that of the source."""
        source = Path(contract_job.__file__)
        return ReplicaSpec(command=("python3", str(source), *arguments), working_dir=str(source.parent))

    async def leave(self) -> None:
        """Forget the adapter, which goes on as a zombie beside the next one: that is worse than to be dead."""
        self._zombies.append(self.cluster)

    async def come_back(self) -> None:
        """A new adapter on the same folder."""
        self.cluster: DockerCluster = self.make()

    def make(
        self,
        url: Callable[[DockerEngine], str] = lambda engine: engine.url,
        *,
        soft_limits: bool = False,
        host_network: bool = True,
        system_checkpoints: bool = False,
    ) -> DockerCluster:
        """An adapter."""
        nodes = [
            DockerNode(name=name, url=url(self.engines[name]), capacity=capacity)
            for name, capacity in self.nodes.items()
        ]
        return DockerCluster(
            self.state.path,
            nodes,
            self.pool,
            image=images.BASE,
            allowed=self.allowed,
            soft_limits=soft_limits,
            host_network=host_network,
            system_checkpoints=system_checkpoints,
            heartbeat_s=0.5,
        )

    async def kill(self, replica: ReplicaId) -> None:
        """Kill the job; its container sees how it ended."""
        with self.client_of(replica) as (client, name):
            client.kill(name, "SIGKILL")

    async def lose(self, replica: ReplicaId) -> None:
        """Remove the container by hand."""
        with self.client_of(replica) as (client, name):
            client.remove_container(name, force=True)

    async def end_place(self, replica: ReplicaId) -> None:
        """End the engines and the container, as their machine's shutdown does, and start the engines again."""
        process = psutil.Process(self.first_process(replica))
        for engine in self.engines.values():
            engine.kill()
        process.terminate()
        await asyncio.to_thread(process.wait)
        for engine in self.engines.values():
            await asyncio.to_thread(engine.start)

    @contextlib.contextmanager
    def client_of(self, replica: ReplicaId) -> Iterator[tuple[docker.APIClient, str]]:
        """A client of the engine that has the container of the newest incarnation, and the container's name."""
        folder = self.state.incarnations(replica)[-1]
        name = name_of(label_of(self.state), folder)
        for engine in self.engines.values():
            with contextlib.closing(engine.client()) as client:
                if client.containers(all=True, filters={"name": f"^/{name}$"}):
                    yield client, name
                    return
        raise AssertionError(f"there is no container {name}")

    def first_process(self, replica: ReplicaId) -> int:
        """The first process of a running replica's container, by its number on this machine."""
        with self.client_of(replica) as (client, name):
            return int(client.inspect_container(name)["State"]["Pid"])

    def containers(self, node: str) -> list[str]:
        """The names of our containers on a node, ended ones included."""
        with contextlib.closing(self.engines[node].client()) as client:
            found = client.containers(all=True, filters={"label": f"{LABEL}={label_of(self.state)}"})
        return sorted(name.lstrip("/") for each in found for name in each["Names"])

    async def aclose(self) -> None:
        """Remove all containers, and close all adapters."""
        for cluster in (*self._zombies, self.cluster):
            await cluster.close()
        for node in self.engines:
            with contextlib.closing(self.engines[node].client()) as client:
                for name in self.containers(node):
                    with contextlib.suppress(APIError):  # an adapter has just removed it
                        client.remove_container(name, force=True)
