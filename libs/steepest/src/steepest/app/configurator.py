"""Puts parameters and flags in force in a pool's log. It owns which ones."""

from __future__ import annotations

import asyncio

from steepest.events.cluster import PoolConfigured
from steepest.events.parameters import Normalisation, PoolParameters, SpeConParameters
from steepest.events.registry import FLAGS, reads_for
from steepest.log.base import TopicPartition
from steepest.policies.named import under
from steepest.runtime.decode import asked_record
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView

NEW_POOL = under("steepest", PoolParameters(specon=SpeConParameters(normalisation=Normalisation.SETTLED)))
"""What is in force in a new pool. The defaults of the parameters are those of publications."""


class Configurator(Effector):
    """Configures a new pool, and puts other parameters in force where the log does not hold them.

    A new pool gets every flag that this version knows. In one that is older they wait until all of its readers know them.
    """

    name = "configurator"

    def __init__(self, parameters: PoolParameters | None, *, upgrades: bool = False) -> None:
        """Compare once with what the log holds.

        Args:
            parameters: Those to put in force; None leaves what the log holds.
            upgrades: Whether this process is the pool's only reader, so that all flags may be switched on.

        Raises:
            InputError: No reader could read the parameters.
        """
        if parameters is not None:
            asked_record(TopicPartition("cluster"), "", PoolConfigured(parameters=parameters), 0)
        self._parameters = parameters
        self._upgrades = upgrades
        self._differs: asyncio.Queue[PoolConfigured] = asyncio.Queue()

    def caught_up(self, view: ClusterView) -> None:
        """Compare with what is in force."""
        wanted = due_configuration(view, self._parameters, upgrades=self._upgrades)
        self._parameters, self._upgrades = None, False
        if wanted is not None:
            self._differs.put_nowait(wanted)

    async def run(self, send: Send) -> None:
        """Write what was found to differ."""
        while True:
            await send(await self._differs.get())


def due_configuration(
    view: ClusterView, parameters: PoolParameters | None, *, upgrades: bool = False
) -> PoolConfigured | None:
    """The configuration to append to a pool's log; None: it is in force. A new pool gets every flag."""
    state = view.state
    is_new = not view.is_configured
    wanted = configuration(view, parameters, upgrades=is_new or upgrades)
    before = PoolConfigured(reads=state.reads, flags=state.flags, parameters=state.parameters)
    return wanted if is_new or wanted != before else None


def configuration(view: ClusterView, parameters: PoolParameters | None = None, *, upgrades: bool) -> PoolConfigured:
    """The configuration that is wanted for a pool: a version and flags that its log has raised stay.

    Args:
        view: The pool.
        parameters: None: those in force, or those of a new pool.
        upgrades: Whether every flag that this version knows is switched on.
    """
    state = view.state
    parameters = parameters or (state.parameters if view.is_configured else NEW_POOL)
    flags = tuple(sorted({*state.flags, *FLAGS})) if upgrades else state.flags
    return PoolConfigured(reads=max(state.reads, reads_for(flags)), flags=flags, parameters=parameters)
