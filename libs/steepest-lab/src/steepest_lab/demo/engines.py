"""The demo's workload on Docker engines: the nodes, the image and the commands that belong to them.

It owns engines of the demo's own, of its nodes' sizes, for the time of a run. They need root and what ``make engine`` and
``make images`` get; no image registry is asked.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest_lab.demo.workload import DemoWorkload

PYTHON = "python3"


@contextlib.contextmanager
def own_engines(given: DemoWorkload) -> Iterator[DemoWorkload]:
    """The workload on its own engines, one for each node and of the node's size.

    Raises:
        InputError: What they need is missing.
    """
    from steepest_lab.docker_engines import images  # noqa: PLC0415 - the client is an extra
    from steepest_lab.docker_engines.engine_daemon import running_engine  # noqa: PLC0415 - as above

    with contextlib.ExitStack() as stack:
        # Sockets have short names, so not below the state folder.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-")))
        nodes = []
        sizes_m = [node.capacity.cpu_m for node in given.nodes]
        pinned = cores_of(sizes_m, sorted(os.sched_getaffinity(0)))
        for node, cpu_m, core in zip(given.nodes, sizes_m, pinned, strict=True):
            engine = stack.enter_context(running_engine(folder / node.name, cpu_m=cpu_m, core=core))
            with contextlib.closing(engine.client()) as client:
                images.provide(client, images.default_folder(), demo=True)
            nodes.append(msgspec.structs.replace(node, engine=engine.url))
        yield on(given, tuple(nodes))


def cores_of(sizes_m: Sequence[int], cores: Sequence[int]) -> list[int | None]:
    """The core of each node, the one where most is left; None where a node would not have all of its CPU there."""
    left = dict.fromkeys(cores, 1000)
    found: list[int | None] = []
    for size_m in sizes_m:
        core = max(left, key=left.__getitem__)
        if left[core] < size_m:
            found.append(None)
            continue
        left[core] -= size_m
        found.append(core)
    return found


def on(given: DemoWorkload, nodes: tuple[NodeSpec, ...]) -> DemoWorkload:
    """The workload on engines that are there: in the demo's image, whose Python is not the one that runs here."""
    from steepest_lab.docker_engines.images import DEMO  # noqa: PLC0415 - as above

    arrivals = [
        msgspec.structs.replace(
            arrival, spec=msgspec.structs.replace(arrival.spec, command=(PYTHON, *arrival.spec.command[1:]))
        )
        for arrival in given.arrivals
    ]
    return msgspec.structs.replace(given, nodes=nodes, arrivals=tuple(arrivals), image=DEMO)
