"""What a service is: the deciders and effectors that one composition root puts together. Data only; the runtime runs it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from prometheus_client.registry import Collector

from steepest.policies.decider import ClusterDecider, StreamDecider
from steepest.runtime.effector import Effector


class ClusterDeciderType(Protocol):
    """The class of a decider: made with the state of a snapshot, or with none to begin anew."""

    name: str
    state_type: type

    def __call__(self, state: Any = None) -> ClusterDecider:
        """A decider with that state."""


class StreamDeciderType(Protocol):
    """Likewise, of a decider that reads another topic; one is made for each of its partitions."""

    name: str
    topic: str
    state_type: type

    def __call__(self, state: Any = None) -> StreamDecider:
        """A decider with that state."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service.

    Attributes:
        name: Its folder's name.
        cluster_deciders: Deciders that read ``cluster``; all of a process share one view.
        stream_deciders: Deciders that read another topic.
        effectors: What acts on the world.
        collectors: Metrics of its own, beside those of the runtime.
    """

    name: str
    cluster_deciders: tuple[Any, ...] = ()
    stream_deciders: tuple[Any, ...] = ()
    effectors: tuple[Effector, ...] = ()
    collectors: tuple[Collector, ...] = ()

    @property
    def follows_pool(self) -> bool:
        """Whether it reads the pool's log; who only decides about another topic has no use for it."""
        return bool(self.effectors or self.cluster_deciders or not self.stream_deciders)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that every service has.

    Attributes:
        pool: The pool it works for.
        state_dir: Where a service keeps what is its own.
    """

    pool: str = "default"
    state_dir: str = ".steepest"
