"""What a waiting job asks for: jobs that ask for the same have room at the same time, or have none."""

from __future__ import annotations

import msgspec

from steepest.events.common import NodeRule, Resources
from steepest.events.requests import Role
from steepest.view.state import Job


class Wish(msgspec.Struct, frozen=True, cache_hash=True):
    """What a job asks for.

    Attributes:
        requests: Those of its first replica.
        first_node: The node that its first replica must start on, if its user names one.
        accounts: Its queue and its user, which may have limits.
        roles: Of a gang, what its replicas ask for; empty: it has one replica.
        rule: Which nodes each of its replicas may be placed on; None: those without taints.
    """

    requests: Resources
    first_node: str | None
    accounts: tuple[str, ...]
    roles: tuple[Role, ...] = ()
    rule: NodeRule | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many replicas of each role; empty: it has one replica."""
        return tuple(role.replicas for role in self.roles)


def wish_of(job: Job) -> Wish:
    """What a job asks for now; once it has started anywhere, it may go on everywhere."""
    spec = job.spec
    first_node = spec.first_node if job.incarnation == 0 else None
    if spec.is_gang:
        roles = spec.all_roles
        return Wish(roles[0].requests, first_node, job.accounts, roles, job.node_rule)
    requests = spec.all_roles[0].requests if spec.roles else spec.requests
    return Wish(requests, first_node, job.accounts, rule=job.node_rule)
