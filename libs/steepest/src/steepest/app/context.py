"""What a service is built from. It owns nothing, and knows no service."""

from __future__ import annotations

from typing import Protocol

import msgspec

from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.service import Service


class ServiceContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a process that its services share.

    Attributes:
        metrics: Those of the process; a service registers its own there.
    """

    settings: Settings
    installation: Installation
    log: Log
    cluster: Cluster
    clock: Clock
    metrics: Metrics


class Build(Protocol):
    """A service's ``build``, which the entry points of the group ``steepest.services`` name."""

    def __call__(self, context: ServiceContext, /) -> Service:
        """The service's parts.

        Raises:
            InputError: A setting is wrong or missing.
        """
