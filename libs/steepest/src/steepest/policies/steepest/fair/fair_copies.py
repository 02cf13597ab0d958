"""The copies of jobs under fair sharing, and the nodes that they are on."""

from __future__ import annotations

import math

import msgspec

from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.steepest.fair.fair_sharing import Load

LEAST_DEMAND = 0.01
"""Cores; a job that can use nothing would never end."""

SAME_SIZE = 0.01
"""Estimates that differ by less than this share are the same: the ends are not computed again."""

SAME_DEMAND = 0.01
"""Likewise demands, in cores."""


class FairJob(msgspec.Struct):
    """A job's fair copy. Times are seconds of counted time.

    Attributes:
        began_s: When the job came: its completion time counts from there.
        demand: Cores that it can use.
        used: Core-seconds that it has got here.
        size: Core-seconds of the whole job; None: unknown.
        end_s: When it ended here; None: it has not.
        forecast_s: When it will end if no other job comes; None: nothing says when.
        over: Whether the real job has ended.
        first_node: Where it has to begin; None: anywhere.
        placed: Whether the real job has a place, or had one.
        trains: Whether it has begun to train.
        roles: Of a gang that waits.
        gang: The gang of whose copies it is one.
    """

    node: str
    requests: Resources
    began_s: float
    demand: float
    used: float = 0.0
    size: float | None = None
    end_s: float | None = None
    forecast_s: float | None = None
    over: bool = False
    first_node: str | None = None
    placed: bool = False
    trains: bool = False
    roles: tuple[Role, ...] = ()
    gang: str = ""

    @property
    def ends_s(self) -> float | None:
        """When it ended here, or will; None: nothing says when."""
        return self.forecast_s if self.end_s is None else self.end_s

    def due_s(self, lateness: float) -> float | None:
        """When its job is due: such a share of the copy's completion time after its end; None: nothing says when it ends."""
        return None if self.ends_s is None else self.began_s + (1 + lateness) * (self.ends_s - self.began_s)

    @property
    def load(self) -> Load:
        """It as fair sharing sees it."""
        return Load(None if self.size is None else max(self.size - self.used, 0.0), self.demand)


class FairNode(msgspec.Struct):
    """A node under fair sharing.

    Attributes:
        gives: Cores that it really gives to these jobs; it declares its capacity.
        now_s: Up to when its jobs have run.
        jobs: The copies that have not ended, and those that are on their way (``planned``).
        held: What jobs reserve that have no copies, because the policy divides nothing of them.
        stale: Whether the forecasts must be made again.
        next_s: When the next of its copies ends, by the forecasts.
    """

    capacity: Resources
    gives: float
    now_s: float = 0.0
    jobs: dict[str, None] = {}
    planned: dict[str, None] = {}
    held: dict[str, Resources] = {}
    allocated: Resources = Resources()
    stale: bool = False
    next_s: float = math.inf

    @property
    def cores(self) -> float:
        """CPU that is shared."""
        return max(self.gives, LEAST_DEMAND)
