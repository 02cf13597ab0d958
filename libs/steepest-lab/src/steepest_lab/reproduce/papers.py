"""The papers whose experiments are judged by their published figures, simulated and real, and what a real run needs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping

from steepest.errors import InputError
from steepest_lab.demo import stage
from steepest_lab.reproduce.experiments.experiment import Experiment, Paper
from steepest_lab.reproduce.experiments.flowcon import FLOWCON
from steepest_lab.reproduce.experiments.specon import SPECON
from steepest_lab.reproduce.testbed import flowcon, nodes, specon
from steepest_lab.reproduce.testbed.nodes import Testbed

SIMULATED: Mapping[str, Paper] = {paper.name: paper for paper in (SPECON, FLOWCON)}
"""By name, in virtual time."""

REAL: Mapping[str, Paper] = {paper.name: paper for paper in (specon.PAPER, flowcon.PAPER)}
"""By name, with real trainings."""

ON_ENGINES = (flowcon.PAPER.name,)
"""Papers that need soft limits; emulated nodes have only hard caps."""

WHAT = "a reproduction with real trainings"


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
        from steepest_lab.reproduce.testbed.node import node  # noqa: PLC0415 - the client of engines is an extra

        with node() as engine:
            yield nodes.one(engine)
    else:
        with nodes.several(count) as testbed:
            yield testbed


def refuse_without_engine() -> None:
    """Check the requirements of a real engine and of the trainings, before anything is started.

    Raises:
        InputError: A requirement is missing; the hint has the command that installs it.
    """
    if importlib.util.find_spec("docker") is None:
        raise InputError(f"{WHAT} needs the client of Docker engines", hint="install steepest[docker]")
    stage.refuse_without_libraries()
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        raise InputError(f"{WHAT} needs a Docker engine (dockerd)", code="no-engine", hint="get it with `make engine`")
    if os.geteuid() != 0:
        raise InputError(f"{WHAT} starts a private Docker engine", code="not-root", hint="run it as root")
    from steepest_lab.docker_engines import images  # noqa: PLC0415 - the client is an extra

    if why := images.missing(images.default_folder()):
        raise InputError(f"{WHAT} needs an image: {why}", code="no-images", hint="make it with `make images`")
