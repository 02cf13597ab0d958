"""The background tasks of the Kubernetes adapter: watch pods and nodes, observe, measure, copy output.

It must never start or stop anything.
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.folders.replica_roster import ResourceUse, Roster, isolated
from steepest.cluster.heartbeat_fanout import GpuFacts
from steepest.cluster.kubernetes.agent.incarnations import incarnation_of
from steepest.cluster.kubernetes.agent.node_claim import NodeSpeaker
from steepest.cluster.kubernetes.agent.node_sources import AgentNode
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.manifest import CLUSTER
from steepest.cluster.kubernetes.nodes.namespaced_pods import NamespacedPods, groups_of
from steepest.cluster.kubernetes.nodes.pod_devices import PodDevices, unhealthy
from steepest.cluster.kubernetes.nodes.pod_sources import ApiServerSources, PodSources
from steepest.cluster.kubernetes.nodes.selected_nodes import SelectedNodes, by_node, taints_of
from steepest.cluster.kubernetes.objects import ClusterNode, Pod
from steepest.cluster.kubernetes.output import LEFT_S, ContainerOutput, complete
from steepest.cluster.kubernetes.pod_observer import KubernetesTracked, PodObserver, PodRecord, pod_of
from steepest.cluster.kubernetes.reflector import NodeReflector, PodReflector, Reflector, labelled
from steepest.cluster.port import NodeTerms, ReplicaId
from steepest.errors import ClusterError
from steepest.events.common import KeeperFacts, Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.logger import Logger

_log = Logger()
_LOOK_AT_ALL_S = 10.0  # a safety net: no event should get lost while the watch is open
_NET_A_SECOND = 100
"""Incarnations that the safety net looks at in a second: with 10,000 of them it needs 100 s for a round."""

_STARTING_A_LOOK = 20
"""Incarnations not proven to have begun that one look asks about: their pods may not be on record yet."""

READ_A_HEARTBEAT = 1_000
"""Jobs whose reports are read in a heartbeat period: those of more jobs take several periods, and delay no heartbeat."""

FILES_A_LOG = 4
"""Open files of a log that is followed: its folder, the two that are written there, and the stream."""

FOLLOWED_SHARE = 0.25
"""Of the open files that its process may have, what an adapter takes to follow logs; others read what it has written."""

FOLLOWED_BESIDE = 256
"""Logs that an adapter follows whose heartbeats have no consumer: another one, whose heartbeats have, follows the most."""

_LISTED_S = 10.0
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


class KubernetesBackground(Background[KubernetesTracked]):
    """The adapter's background tasks. Create it in a running loop, after the roster was loaded.

    Args:
        api: The API server.
        namespaces: Those of the pods, the installation's own one first.
        label: The label of the adapter's pods.
        selected: Kept as the cluster has them; None: the nodes are listed.
        counts_reads: Whether what the pod of a job of one replica receives is what it reads from the pool's storage.
        agent: The node that this is the agent of: it is then concerned with no other one.
        sources: Where what pods print and use is read; None: from the API server.
    """

    def __init__(
        self,
        settings: AdapterSettings,
        roster: Roster[KubernetesTracked],
        api: KubernetesApi,
        namespaces: Sequence[str],
        label: str,
        *,
        selected: SelectedNodes | None,
        counts_reads: bool = False,
        agent: AgentNode | None = None,
        sources: Callable[[NamespacedPods], PodSources] | None = None,
    ) -> None:
        super().__init__(settings, roster)
        self._api = api
        of_node = f"spec.nodeName={agent.name}" if agent is not None else ""
        pods = {**labelled({CLUSTER: label}), "fieldSelector": of_node}
        self.pods = NamespacedPods(api, namespaces, pods, self._pod_changed, groups_of)
        nodes = {
            "labelSelector": selected.selector if selected is not None else "",
            "fieldSelector": f"metadata.name={agent.name}" if agent is not None else "",
        }
        self.nodes: NodeReflector = Reflector(api, "/api/v1/nodes", ClusterNode, nodes, self._node_changed)
        # Every pod of the cluster but the pool's own ones. It is read only where heartbeats are sent, and only if it may be.
        others = {
            "labelSelector": f"{CLUSTER}!={label}",
            "fieldSelector": ",".join(filter(None, (NOT_ENDED, of_node))),
        }
        self._others: PodReflector = Reflector(api, "/api/v1/pods", Pod, others, self._others_changed)
        self._others_begun: asyncio.Task[bool] | None = None
        self._selected = selected
        self._counts_reads = counts_reads
        self._by_name: dict[str, ClusterNode] | None = None
        self._held: tuple[dict[str, Resources], dict[str, Resources]] = ({}, {})
        self._is_stale = True
        self.observer = PodObserver(api, self.pods)
        self._sources = (
            sources(self.pods) if sources is not None else ApiServerSources(api, self.pods, self._kubelet_of)
        )
        self._usage = self._sources.usage
        self._agent = agent
        self._devices = PodDevices(settings.state)
        self._speaker = NodeSpeaker(settings.state, agent.name if agent is not None else None)
        self._untracked: dict[str, None] = {}  # UIDs of pods on an agent's node whose incarnations are not tracked yet
        self._outputs: dict[str, ContainerOutput] = {}
        self._room = 0  # for so many more logs, since they were counted last
        self._is_crowded = False
        self._completing: dict[ReplicaId, asyncio.Task[None]] = {}
        self._doubtful: dict[str, None] = {}  # UIDs of pods that changed since they were observed
        self._by_pod: dict[str, ReplicaId] = {}  # those that have begun, by the UID of their pod
        self._starting: dict[ReplicaId, None] = {}  # those that are not proven to have begun, the next to look at first
        self._is_new = True
        self._net: list[ReplicaId] = []
        self._net_made_s = self._net_used_s = 0.0
        self._read: dict[ReplicaId, None] = {}  # the running ones, the next to read first

    async def open(self) -> None:
        """Begin to watch, and observe everything."""
        self.pods.start()
        self.nodes.start()
        if not (await self.pods.listed(_LISTED_S) and await self.nodes.listed(_LISTED_S)):
            _log.warning("API server does not answer")
        self._renew()
        await self.look()
        self.start()

    async def close(self) -> None:
        """See ``Background.close``."""
        await super().close()
        completing = list(self._completing.values())
        for task in completing:
            task.cancel()
        await asyncio.gather(*completing, return_exceptions=True)
        await self.pods.close()
        await self.nodes.close()
        await self._others.close()
        await self._usage.close()
        copies = [output.task for output in self._outputs.values()]
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        await asyncio.to_thread(self._speaker.close)
        await self._api.close()

    def answers(self, node: str) -> bool:
        """Whether the node's kubelet answers, as far as the API server says and itself answers."""
        found = self.node(node)
        return node in self._capacities and self.nodes.is_live and found is not None and found.is_ready

    def gpu_facts(self, node: str) -> GpuFacts:
        """See ``Background.gpu_facts``: what kubelets say of the GPUs of pods."""
        return GpuFacts((), self._devices.failed(node, time.monotonic()))

    def capacity(self, node: str) -> Resources:
        """See ``Background.capacity``: of a listed node, what its kubelet does not give is not there either."""
        return self._without_failed(node, self._capacities[node])

    def _without_failed(self, node: str, total: Resources) -> Resources:
        missing, failed = unhealthy(self.node(node)), len(self.gpu_facts(node).failed)
        lost = max(failed, missing) if self._selected is None else max(failed - missing, 0)
        return total - Resources(gpus=min(lost, total.gpus))

    def _see_devices(self, tracked: KubernetesTracked) -> None:
        if tracked.pod is not None and (pod := self.pods.get(tracked.pod.uid)) is not None:
            tracked.gpus = self._devices.of(tracked.node, pod, time.monotonic())

    def speaks_for(self, node: str) -> bool:
        """See ``Background.speaks_for``: a node's agent, and no other process while it does."""
        return self._speaker.speaks_for(node)

    def node(self, name: str) -> ClusterNode | None:
        """A node, if the cluster has it."""
        if self._by_name is None:
            self._by_name = {each.metadata.name: each for each in self.nodes.all()}
        return self._by_name.get(name)

    def keeper_facts(self, node: str) -> KeeperFacts | None:
        """See ``Background.keeper_facts``: what its kubelet has said, and keepers there."""
        return self._as_keepers_see(node, found.keeper if (found := self.node(node)) is not None else None)

    def _kubelet_of(self, name: str) -> str:
        found = self.node(name)
        return found.kubelet if found is not None else ""

    def terms(self, name: str) -> NodeTerms | None:
        """Which jobs a node takes; None if the cluster has no such node."""
        found = self.node(name)
        if found is None or name not in self._capacities:
            return None
        capacity = self._capacities[name] if self._selected is None else self._selected.tolerated(name)
        capacity = self._without_failed(name, capacity)
        return NodeTerms(capacity=capacity, labels=found.metadata.labels, taints=taints_of(found))

    async def heartbeats(self) -> AsyncIterator[NodeHeartbeat]:
        """See ``Background.heartbeats``. Where nodes are selected, the first ones take the pods of others into account."""
        await self._speaker.look()
        if self._selected is not None:
            if self._others_begun is None:
                self._others.start()
                self._others_begun = asyncio.create_task(self._others.listed(_LISTED_S))
            if not await asyncio.shield(self._others_begun):
                _log.warning("the pods of others are not known; a start that finds no room is refused")
            self._renew()
        async for each in super().heartbeats():
            yield each

    def _pod_changed(self, pod: Pod) -> None:
        self._doubtful[pod.metadata.uid] = None
        if self._agent is not None and pod.metadata.uid not in self._by_pod:
            self._untracked[pod.metadata.uid] = None
        self._is_stale = True
        self.watch.pulse.fire()

    def _node_changed(self, node: ClusterNode) -> None:
        del node
        self._by_name = None
        self._is_stale = True

    def _others_changed(self, pod: Pod) -> None:
        del pod
        self._is_stale = True

    def _renew(self) -> None:
        """Take in what is known of the pool's nodes; also what only lasts: more room counts after a time."""
        if self._selected is None:
            return
        if self._is_stale:
            self._held = by_node(self.pods.all()), by_node(self._others.all())
            self._is_stale = False
        self._selected.renew(self.nodes.all(), *self._held)

    # --- looking ------------------------------------------------------------------------------------------------------

    def watch_incarnation(self, folder: IncarnationFolder) -> None:
        """See ``Background.watch_incarnation``."""
        super().watch_incarnation(folder)
        self._starting[folder.replica] = None

    def unwatch(self, tracked: KubernetesTracked) -> None:
        """See ``Background.unwatch``."""
        super().unwatch(tracked)
        newest = self.roster.get(tracked.folder.replica)
        if newest is None or newest is tracked:
            self._starting.pop(tracked.folder.replica, None)
        if (pod := tracked.__dict__.get("pod")) is not None:
            self._by_pod.pop(pod.uid, None)

    async def see(self) -> list[KubernetesTracked]:
        """Observe the pods that changed, some that have not started, and now and then all.

        The work grows with what has changed, and not with the number of incarnations that run.
        """
        changed = []
        self._count_followed()
        if self._untracked:
            await self._track_new()
        for replica in self._looked_at():
            tracked = self.roster.get(replica)
            if tracked is None or tracked.seen.ended:
                self._starting.pop(replica, None)
                continue
            seen = tracked.seen
            with isolated(tracked.folder):
                try:
                    seen = await self.observer.observe(tracked.folder)
                except ClusterError as error:
                    _log.info("pod not observed", incarnation=str(tracked.folder), why=str(error))
                if not seen.began:
                    tracked.__dict__.pop("pod", None)  # a start that was taken back may make another one
                elif tracked.pod is not None and not seen.ended:
                    self._by_pod[tracked.pod.uid] = replica
                    self._starting.pop(replica, None)
                    self._see_devices(tracked)
                    self._follow(tracked.folder, tracked.pod)
                if tracked.note(seen):
                    changed.append(tracked)
        return changed

    async def follow_others(self) -> None:
        """See ``Background.follow_others``. An agent learns of its node's pods by its watch: it lists no other jobs."""
        if self._agent is None:
            await super().follow_others()
            return
        await self.drop_retired()
        for tracked in await asyncio.to_thread(self.roster.superseded):
            self.roster.drop_one(tracked)  # it goes on elsewhere, and another agent reports it

    async def _track_new(self) -> None:
        """Track the incarnations of pods that are new on an agent's node, once their folders can be read."""
        for uid in list(itertools.islice(self._untracked, _STARTING_A_LOOK)):
            del self._untracked[uid]
            pod = self.pods.get(uid)
            folder = incarnation_of(self._state, pod.metadata) if pod is not None else None
            if folder is None:
                continue
            record = await asyncio.to_thread(pod_of, folder)
            if record is None:
                self._untracked[uid] = None  # the volume does not show it yet, or it is not Steepest's
            elif record.uid == uid:
                self.track(folder)

    def _looked_at(self) -> list[ReplicaId]:
        """Whose pods must be observed now; at the first look all, because the first heartbeats list what runs."""
        doubtful, self._doubtful = self._doubtful, {}
        if self._is_new:
            self._is_new = False
            return [each.folder.replica for each in self.roster.all()]
        found = {replica: None for uid in doubtful if (replica := self._by_pod.get(uid)) is not None}
        for replica in list(itertools.islice(self._starting, _STARTING_A_LOOK)):
            found[replica] = self._starting.pop(replica)
            self._starting[replica] = None
        now_s = time.monotonic()
        if not self._net and now_s >= self._net_made_s + _LOOK_AT_ALL_S:
            self._net = [each.folder.replica for each in self.roster.all() if not each.seen.ended]
            self._net_made_s = self._net_used_s = now_s
        if self._net:
            count = 1 + int(_NET_A_SECOND * (now_s - self._net_used_s))
            found |= dict.fromkeys(self._net[-count:])
            del self._net[-count:]
            self._net_used_s = now_s
        return list(found)

    async def begin_output(self, folder: IncarnationFolder) -> None:
        """Begin to copy the output of an incarnation that is about to be stopped: its log goes with its pod."""
        pod = await asyncio.to_thread(pod_of, folder)
        if pod is not None:
            self._follow(folder, pod, must=True)
            if (output := self._outputs.get(pod.uid)) is not None:
                await output.begin()

    def _count_followed(self) -> None:
        """See for how many more logs there are files: one that is not followed is copied when its container ends."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = int(FOLLOWED_SHARE * files / FILES_A_LOG) if self._listeners else FOLLOWED_BESIDE
        self._room = most - sum(not output.task.done() for output in self._outputs.values())

    def _follow(self, folder: IncarnationFolder, pod: PodRecord, *, must: bool = False) -> None:
        output = self._outputs.get(pod.uid)
        if output is not None and not output.may_be_begun_again:
            return
        if self._room <= 0 and not must:
            if self._listeners and not self._is_crowded:
                self._is_crowded = True
                _log.warning("too few open files to follow all logs", followed=len(self._outputs))
            return
        found = self.pods.get(pod.uid)
        if found is None or (found.state.running is None and found.state.terminated is None):
            return
        if output is None or not (output.is_complete and found.state.running is None):
            begun = self._copy(folder, pod, delay_s=0.0 if self._listeners else LEFT_S)
            if begun is not None:
                self._outputs[pod.uid] = begun
                self._room -= 1

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def finish(self, ended: KubernetesTracked) -> None:
        """See ``Background.finish``: copy the rest of the output."""
        await self.complete_output(ended.folder)
        if ended.pod is not None:
            self._usage.forget(ended.pod.uid)

    async def complete_output(self, folder: IncarnationFolder) -> None:
        """Wait until all that an ended incarnation printed is in its file, as long as its pod is there."""
        pod = pod_of(folder)
        if pod is not None:
            running = self._outputs.get(pod.uid)
            await complete(running, lambda patience_s: self._copy(folder, pod, patience_s))
            self._outputs.pop(pod.uid, None)

    def complete_later(self, folder: IncarnationFolder) -> None:
        """Complete the output of an ended incarnation side by side with what follows.

        A node ends the stream of a log up to a second after its container, and a move need not wait for that.
        """
        completing = asyncio.create_task(self.complete_output(folder))
        self._completing[folder.replica] = completing

        def forget(task: asyncio.Task[None]) -> None:
            if self._completing.get(folder.replica) is task:
                del self._completing[folder.replica]

        completing.add_done_callback(forget)

    async def completed(self, replica: ReplicaId) -> None:
        """Wait until the output of a replica's last stopped incarnation is completed."""
        if (completing := self._completing.get(replica)) is not None:
            await asyncio.wait([completing])

    def _copy(
        self, folder: IncarnationFolder, record: PodRecord, patience_s: float = 0.0, delay_s: float = 0.0
    ) -> ContainerOutput | None:
        known = self.pods.get(record.uid) or self.pods.last(record.uid)
        return self._sources.output(folder, record, known, patience_s=patience_s, delay_s=delay_s)

    # --- measuring ----------------------------------------------------------------------------------------------------

    async def measure(self) -> None:
        """Take the newest samples of running pods, and ask for more while the heartbeats have a consumer."""
        self._renew()
        self._count_followed()
        running = [each for each in self.roster.running() if self.answers(each.node)]
        if self._listeners:
            await self._speaker.look()
            pods = [
                pod for each in running if each.pod is not None and (pod := self.pods.get(each.pod.uid)) is not None
            ]
            self._usage.measure_pods(pods)
        for tracked in running:
            with isolated(tracked.folder):
                if tracked.pod is not None:
                    self._see_devices(tracked)
                    self._follow(tracked.folder, tracked.pod)
                    tracked.use = self._use_of(tracked, tracked.pod)
        if self._listeners:  # what is read goes into heartbeats only
            self._read_reports({each.folder.replica: each for each in running})

    def _use_of(self, tracked: KubernetesTracked, pod: PodRecord) -> ResourceUse:
        """The use of its pod. One in its machine's network has no own counters; a gang's receive gradients as well."""
        use, found = self._usage.of(pod.uid), self.pods.get(pod.uid)
        if found is None or found.spec.host_network:
            return msgspec.structs.replace(use, network_bytes_s=None, read_bytes=None)
        if not self._counts_reads or self.roster.count(tracked.folder.replica.job) > 1:
            return msgspec.structs.replace(use, read_bytes=None)
        return use

    def _read_reports(self, running: Mapping[ReplicaId, KubernetesTracked]) -> None:
        self._read = {each: None for each in (*self._read, *running) if each in running}
        for replica in list(itertools.islice(self._read, READ_A_HEARTBEAT)):
            del self._read[replica]
            self._read[replica] = None
            tracked = running[replica]
            with isolated(tracked.folder):
                tracked.note(tracked.seen)
                tracked.tail.read()
