"""What the planner remembers of the replicas on a node of a job that it does not manage."""

from __future__ import annotations

import msgspec

from steepest.events.common import Resources
from steepest.policies.steepest.managed_job import ManagedJob


class UnmanagedReplicas(msgspec.Struct):
    """The replicas of a job on one node.

    Attributes:
        count: How many.
        held: What they reserve, all together.
        trains: Whether any of them computes.
        use: What they use, all together; of the job's first node, the limit that was planned for each of its replicas.
        limit_m: The limit of each replica that the node's newest plan wants, in millicores; None: none.
    """

    incarnation: int
    count: int
    held: Resources
    trains: bool
    use: ManagedJob
    limit_m: int | None = None

    def limit(self, each_m: int | None) -> None:
        """This limit of each replica is in force from here on."""
        self.use.limit(None if each_m is None else each_m * self.count)

    def refuse(self, until_s: float) -> None:
        """A limit was refused: until then none is planned."""
        self.use.refuse(until_s)
        if self.use.limit_m is not None:
            self.use.limit_m //= self.count
