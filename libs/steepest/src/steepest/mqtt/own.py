"""What is a device's own: of which node and of which jobs it may say anything.

It owns that rule and the memory that it needs. It must never know the broker.

* A node that an adapter starts jobs on is heard from its adapter; over MQTT it speaks only where it is named as an *agent*:
  its log-collector writes over MQTT.
* No adapter starts anything on another device's node. So its heartbeats list no replicas, and it takes no jobs.
* A loss is reported by the device that the job names, or by the agent on whose node the job is or was.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from steepest.events import cluster as c
from steepest.events.heartbeat import NodeHeartbeat
from steepest.mqtt.payload import Message, RefusedMessageError
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job


class Own:
    """What each device may speak for.

    Attributes:
        homes: The agents on whose nodes a job is or was, by job.
    """

    def __init__(self, nodes: Collection[str], agents: Collection[str]) -> None:
        """``nodes`` are those that adapters start jobs on; ``agents`` those that are heard over MQTT all the same."""
        self.homes: dict[str, list[str]] = {}
        self._agents = frozenset(agents)
        self._adapters = frozenset(nodes) - self._agents

    def look(self, view: ClusterView) -> None:
        """Take in where all jobs are."""
        for job in view.jobs:
            for node in job.nodes:
                self._note(job.name, node)

    def observe(self, event: c.ClusterEvent) -> None:
        """A job is placed somewhere."""
        if isinstance(event, c.StepBegun) and event.step is c.Step.START:
            self._note(event.job, event.node)

    def go_on_with(self, kept: dict[str, list[str]]) -> None:
        """Add to what was kept, which is ours from now on."""
        noted, self.homes = self.homes, kept
        for job, nodes in noted.items():
            for node in nodes:
                self._note(job, node)

    def forget(self, view: ClusterView) -> None:
        """Forget jobs that the pool has forgotten."""
        for name in [name for name in self.homes if name not in view.jobs]:
            del self.homes[name]

    def heartbeat(self, beat: NodeHeartbeat) -> NodeHeartbeat:
        """A heartbeat as it may stand on the log: of another node than an agent's, that it takes no jobs.

        Raises:
            RefusedMessageError: It is of another's node, or lists what cannot be there; the code is ``node``.
        """
        if beat.node in self._adapters:
            raise RefusedMessageError(
                f"`$.event.node`: {beat.node} is a node of the pool's own, and none that speaks over MQTT", code="node"
            )
        if beat.node in self._agents:
            return beat
        if beat.replicas:
            raise RefusedMessageError(
                f"`$.event.replicas`: nothing is started on {beat.node}, which is no agent's node", code="node"
            )
        return msgspec.structs.replace(beat, takes_jobs=False)

    def refuse_others_job(self, job: Job, message: Message) -> None:
        """Let a message about a job pass that is from its device.

        Raises:
            RefusedMessageError: It is from another; the code is ``job``.
        """
        device = message.said.device
        if device != job.spec.device and device not in self.homes.get(job.name, ()):
            raise RefusedMessageError(f"`$.event.job`: {job.name} is no job of {device}", code="job")

    def _note(self, job: str, node: str) -> None:
        if node in self._agents and node not in (at := self.homes.setdefault(job, [])):
            at.append(node)
