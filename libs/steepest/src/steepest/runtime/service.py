"""A service: the deciders and effectors that one composition root combines. Data only; the runtime runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from steepest.policies.decider import ClusterDecider, StreamDecider
from steepest.runtime.effector import Effector

D_co = TypeVar("D_co", covariant=True)
StateT = TypeVar("StateT", bound=msgspec.Struct)


class DeciderType(Protocol[D_co, StateT]):
    """The class of a decider.

    Attributes:
        name: That of its deciders.
        logic: Likewise.
        state_type: What a snapshot of one is decoded as.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above

    @property
    def logic(self) -> int: ...  # noqa: D102 - see above

    @property
    def state_type(self) -> type[StateT]: ...  # noqa: D102 - see above

    def __call__(self, state: StateT | None = None) -> D_co:
        """A decider with the state of a snapshot; None: with an empty one."""


class StreamDeciderType(DeciderType[StreamDecider, Any], Protocol):
    """The class of a decider that reads another topic; one is made for each of its partitions."""

    @property
    def topic(self) -> str: ...  # noqa: D102 - the topic


ClusterDeciderType = DeciderType[ClusterDecider, Any]
"""A decider with any type of state: a service has deciders of several."""


class HeldPool(msgspec.Struct, frozen=True):
    """A pool that a process works on now.

    Attributes:
        pool: Its name.
        is_held: Whether the process still has it, so that it may act on the pool's nodes; it waits while that is unknown.
    """

    pool: str
    is_held: Callable[[], Awaitable[bool]]


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service.

    Attributes:
        name: Its folder's name.
        cluster_deciders: Deciders that read ``cluster``; all of a process share one view.
        stream_deciders: Deciders that read another topic.
        effectors: Makes what acts on the world for a pool, each time that the process takes the pool; None: nothing acts.
    """

    name: str
    cluster_deciders: tuple[ClusterDeciderType, ...] = ()
    stream_deciders: tuple[StreamDeciderType, ...] = ()
    effectors: Callable[[HeldPool], Sequence[Effector]] | None = None

    def effectors_of(self, pool: HeldPool) -> Sequence[Effector]:
        """New effectors for a pool."""
        return self.effectors(pool) if self.effectors else ()

    @property
    def follows_pool(self) -> bool:
        """Whether it reads the pool's log; who only decides about another topic has no use for it."""
        return bool(self.effectors or self.cluster_deciders or not self.stream_deciders)
