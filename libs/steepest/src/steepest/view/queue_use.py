"""What the running jobs of each queue hold together. It must never know limits."""

from __future__ import annotations

import msgspec

from steepest.view.orders.changes import Changes
from steepest.view.state import Job, Phase


class Holdings(msgspec.Struct, frozen=True):
    """Places of replicas, CPU in millicores, and GPUs in thousandths."""

    replicas: int = 0
    cpu_m: int = 0
    gpu_m: int = 0

    def __add__(self, other: Holdings) -> Holdings:
        return Holdings(self.replicas + other.replicas, self.cpu_m + other.cpu_m, self.gpu_m + other.gpu_m)

    def __sub__(self, other: Holdings) -> Holdings:
        return Holdings(self.replicas - other.replicas, self.cpu_m - other.cpu_m, self.gpu_m - other.gpu_m)


NO_HOLDINGS = Holdings()


class QueueUse:
    """Sums by queue, kept as jobs change.

    Attributes:
        falls: The queues whose jobs hold less than before.
    """

    def __init__(self) -> None:
        self.falls: Changes[str] = Changes()
        self._jobs: dict[str, Holdings] = {}
        self._queues: dict[str, Holdings] = {}

    def of(self, queue: str) -> Holdings:
        """What the jobs of a queue hold."""
        return self._queues.get(queue, NO_HOLDINGS)

    def update(self, job: Job) -> None:
        """A job may hold more or less than before."""
        before = self._jobs.get(job.name, NO_HOLDINGS)
        if job.phase is not Phase.RUNNING and before is NO_HOLDINGS:
            return
        now = _held_by(job)
        if now == before:
            return
        queue = job.spec.queue
        self._jobs[job.name] = now
        if now == NO_HOLDINGS:
            del self._jobs[job.name]
        if now.replicas < before.replicas or now.cpu_m < before.cpu_m or now.gpu_m < before.gpu_m:
            self.falls.note(queue)
        total = self._queues[queue] = self.of(queue) + now - before
        if total == NO_HOLDINGS:
            del self._queues[queue]


def _held_by(job: Job) -> Holdings:
    replicas = cpu_m = gpu_m = 0
    for node, count in job.holds.items():
        amount = job.held[node] if node in job.held else job.spec.chief_requests.times(count)
        replicas += count
        cpu_m += amount.cpu_m
        gpu_m += amount.all_gpus_m
    return Holdings(replicas, cpu_m, gpu_m)
