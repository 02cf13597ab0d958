"""The parts from which a service is built. It owns nothing, and knows no service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from steepest.app.held_cluster import held_cluster
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, StateFolder
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.runtime.effector import Effector
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.service import HeldPool, Service


class ServiceContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a process that its services share.

    Attributes:
        clusters: The nodes of each pool, by the pool's name.
        metrics: Those of the process; a service registers its own there.
    """

    settings: Settings
    installation: Installation
    log: Log
    clusters: Mapping[str, Cluster]
    clock: Clock
    metrics: Metrics

    @property
    def pool(self) -> str:
        """The pool of a service that works for one only."""
        return self.settings.pool or self.installation.pool

    def cluster_of(self, held: HeldPool) -> Cluster:
        """The nodes of a pool, which obey as long as the pool is held."""
        return held_cluster(self.clusters[held.pool], held)

    def kubernetes_effectors_of(self, held: HeldPool) -> Sequence[Effector]:
        """The part that submits users' Jobs of a pool's cluster, makes Events, and sees nodes go; none elsewhere."""
        if not self.installation.kubernetes(held.pool):
            return ()
        from steepest.cluster.kubernetes import KubernetesCluster  # noqa: PLC0415 - as above
        from steepest.collector.gone_nodes import GoneNodes  # noqa: PLC0415 - the client is an extra
        from steepest.collector.job_notices import JobNotices  # noqa: PLC0415 - the client is an extra
        from steepest.collector.notice_writer import NoticeWriter  # noqa: PLC0415 - the client is an extra
        from steepest.collector.users_jobs import UsersJobs  # noqa: PLC0415 - the client is an extra

        cluster = self.clusters[held.pool]
        assert isinstance(cluster, KubernetesCluster)  # noqa: S101 - so it was opened

        def is_ours(queue: str) -> bool:
            return self.installation.pool_of_queue(queue) == held.pool

        settings = cluster.jobs_settings
        notices = NoticeWriter(cluster.connect(), settings, self.clock)
        return (
            UsersJobs(cluster.connect(), settings, is_ours, notices),
            JobNotices(notices, settings),
            GoneNodes(cluster.connect(), self.cluster_of(held)),
        )

    def folder_of(self, pool: str) -> StateFolder:
        """Where a pool's files are."""
        return self.settings.folder.of_pool(self.installation, pool)


class Build(Protocol):
    """A service's ``build``, which the entry points of the group ``steepest.services`` name."""

    def __call__(self, context: ServiceContext, /) -> Service:
        """The service's parts.

        Raises:
            InputError: A setting is wrong or missing.
        """
