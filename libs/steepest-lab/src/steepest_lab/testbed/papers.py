"""The papers whose experiments run with real trainings, and the nodes that each experiment needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from steepest_lab.sim.reproduce.experiment import Experiment, Paper
from steepest_lab.testbed import flowcon, nodes, specon
from steepest_lab.testbed.nodes import Testbed

PAPERS: Mapping[str, Paper] = {paper.name: paper for paper in (specon.PAPER, flowcon.PAPER)}
"""By name."""

ON_ENGINES = (flowcon.PAPER.name,)
"""Papers that need soft limits; emulated nodes have only hard caps."""


@contextlib.contextmanager
def nodes_for(paper: Paper, experiment: Experiment) -> Iterator[Testbed]:
    """The nodes of an experiment, within the block.

    Raises:
        InputError: What they need is missing.
        ClusterError: An engine does not start.
    """
    count = len(experiment.nodes().nodes)
    if paper.name not in ON_ENGINES:
        yield nodes.emulated(count)
    elif count == 1:
        from steepest_lab.testbed.node import node  # noqa: PLC0415 - the client of engines is an extra

        with node() as engine:
            yield nodes.one(engine)
    else:
        with nodes.several(count) as testbed:
            yield testbed
