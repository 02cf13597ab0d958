"""Declares nodes gone that a Kubernetes cluster has removed, so that their jobs go on elsewhere.

It owns the proof. A node that is silent or not ready is only lost, because its processes may run. It is gone once the API
server has no object of it, or an administrator has marked it as out of service, and none of the pool's pods there is
left: by removing a pod without its kubelet Kubernetes says that the pod has ended, and makes its successor.
"""

from __future__ import annotations

import asyncio
import contextlib

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import ClusterNode, Listing
from steepest.cluster.port import Cluster, ReplicaPhase
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.logger import Logger
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

_log = Logger()
LOOK_S = 5.0
"""How often a lost node is looked up."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint by which an administrator says that a node is off; Kubernetes then removes its pods."""

_MAY_RUN = (ReplicaPhase.STARTING, ReplicaPhase.RUNNING)


class GoneNodes(Effector):
    """Watches over the lost nodes of one pool.

    Args:
        api: The API server; it is closed at the end.
        cluster: The pool's nodes.
    """

    name = "gone-nodes"

    def __init__(self, api: KubernetesApi, cluster: Cluster) -> None:
        self._api = api
        self._cluster = cluster
        self._view = ClusterView()
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._declared: dict[str, None] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Begin: the view says which nodes are lost."""
        self._view = view
        self._ready.set()

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Keep the view, and notice a node that is lost."""
        self._view = view
        if accepted and isinstance(received.event, c.NodeLost):
            self._lost.set()

    async def run(self, send: Send) -> None:
        """Declare nodes gone until the end."""
        await self._ready.wait()
        try:
            while True:
                self._lost.clear()
                lost = [node.name for node in self._view.nodes if node.lost]
                self._declared = {name: None for name in self._declared if name in lost}
                for name in lost:
                    await self._declare(name, send)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S if lost else None):
                        await self._lost.wait()
        finally:
            await self._api.close()

    async def _declare(self, name: str, send: Send) -> None:
        if name in self._declared:
            return
        try:
            if not await self._is_removed(name) or await self._may_run_something(name):
                return
        except ClusterError as error:
            _log.info("a lost node could not be looked up", node=name, why=str(error))
            return
        self._declared[name] = None
        _log.warning("the cluster has removed a lost node", node=name)
        await send(c.NodeGone(node=name))

    async def _is_removed(self, name: str) -> bool:
        """Whether the cluster has removed the node, or its administrator has.

        Raises:
            ClusterError: The API server refuses, or does not answer.
        """
        found = await self._api.get("/api/v1/nodes", Listing[ClusterNode], {"fieldSelector": f"metadata.name={name}"})
        return all(
            not node.is_ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints) for node in found.items
        )

    async def _may_run_something(self, name: str) -> bool:
        """Whether a pod of a replica that was started there may run.

        Raises:
            ClusterError: The API server refuses, or does not answer.
        """
        there = await asyncio.to_thread(self._cluster.files, name)
        for replica in dict.fromkeys(one.replica for one in there):
            seen = await self._cluster.lookup(replica, verify=False)
            if seen is not None and seen.node == name and seen.phase in _MAY_RUN:
                return True
        return False
