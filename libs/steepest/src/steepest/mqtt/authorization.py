"""About which node and which jobs a device may report.

It owns that rule and the state that it needs. It must never know the broker.

* A node on which an adapter starts jobs is heard from its adapter. Over MQTT it reports only if it is named as an *agent*:
  its log-collector writes over MQTT.
* No adapter starts anything on the node of another device. So its heartbeats list no replicas, and it takes no jobs.
* A loss is reported by the device that the job names, or by the agent on whose node the job is or was.
* There is a bound on devices: who reaches a broker without access rules can make up any number.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.mqtt.payload import DeviceMessage, RefusedMessageError
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

DEVICES_MOST = 1_000
"""Nodes of a pool that only report. The view forgets one that is silent for a day."""


class Authorization:
    """The reports that each device may send.

    Attributes:
        agents_of: The agents on whose nodes a job is or was, by job.
    """

    def __init__(self, nodes: Collection[str], agents: Collection[str]) -> None:
        """``nodes`` are those on which adapters start jobs; ``agents`` are those of them that report over MQTT."""
        self.agents_of: dict[str, list[str]] = {}
        self._agents = frozenset(agents)
        self._adapters = frozenset(nodes) - self._agents
        self._joining: set[str] = set()  # devices that the view does not have yet

    def index(self, view: ClusterView) -> None:
        """Note where all jobs are."""
        for job in view.jobs:
            for node in job.nodes:
                self._note(job.name, node)

    def observe(self, event: c.ClusterEvent) -> None:
        """Note where a job is placed."""
        if isinstance(event, c.StepBegun) and event.step is c.Step.START:
            self._note(event.job, event.node)

    def restore(self, saved: dict[str, list[str]]) -> None:
        """Add the knowledge so far to the saved one, and keep both in ``saved``."""
        known, self.agents_of = self.agents_of, saved
        for job, nodes in known.items():
            for node in nodes:
                self._note(job, node)

    def forget_jobs_unknown_to(self, view: ClusterView) -> None:
        """Forget jobs that the pool has forgotten."""
        for name in [name for name in self.agents_of if name not in view.jobs]:
            del self.agents_of[name]

    def authorize_heartbeat(self, beat: NodeHeartbeat, view: ClusterView) -> NodeHeartbeat:
        """The heartbeat as it is appended: a node that is no agent's takes no jobs.

        Raises:
            RefusedMessageError: The node has an adapter, or lists replicas that cannot be there; the code is ``node``. Or it
                is a new one, and there are as many as there may be; the code is ``devices``.
        """
        if beat.node in self._adapters:
            raise RefusedMessageError(
                f"`$.event.node`: {beat.node} is a node with an adapter, and no agent that reports over MQTT",
                code="node",
            )
        if beat.node in self._agents:
            return beat
        if beat.replicas:
            raise RefusedMessageError(
                f"`$.event.replicas`: nothing is started on {beat.node}, which is no agent's node", code="node"
            )
        self._admit(beat.node, view)
        return msgspec.structs.replace(beat, takes_jobs=False)

    def _admit(self, device: str, view: ClusterView) -> None:
        if device in view.nodes or device in self._joining:
            return
        self._joining = {one for one in self._joining if one not in view.nodes}
        if len(self._joining) + sum(not node.takes_jobs for node in view.nodes) >= DEVICES_MOST:
            raise RefusedMessageError(
                f"`$.device`: the pool has {DEVICES_MOST} devices already, and {device} is a new one", code="devices"
            )
        self._joining.add(device)

    def authorize_report(self, job: Job, message: DeviceMessage) -> None:
        """Accept a message about a job from the job's device or an agent where it is or was.

        Raises:
            RefusedMessageError: It is from another device; the code is ``job``.
        """
        device = message.envelope.device
        if device != job.spec.device and device not in self.agents_of.get(job.name, ()):
            raise RefusedMessageError(f"`$.event.job`: {job.name} is no job of {device}", code="job")

    def _note(self, job: str, node: str) -> None:
        if node in self._agents and node not in (at := self.agents_of.setdefault(job, [])):
            at.append(node)
