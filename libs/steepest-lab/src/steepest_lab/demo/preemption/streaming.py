"""The workload of PickyMan's demo: trainings that stream their data from a storage server, too many for the nodes.

Two long trainings fill the nodes. When their epochs are known, short ones of the same model arrive, and waiting for the
end of a long one would take them longer than it takes a long one to give way. Pure except the storage, which is started
for the time of a run.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.events.cluster import JobSpec
from steepest.events.common import Resources
from steepest_lab.demo.workload import PRIORITIES, Arrival, DemoWorkload
from steepest_lab.jobs.streamed_data import RECORD_BYTES, write_features, write_images
from steepest_lab.storage.link import running_link
from steepest_lab.storage.server import running_storage

POLICY = "pickyman"
MODEL = "random features"
NODE_M = 700
"""Of each of two nodes, in millicores: 70 % of two cores together."""

STORAGE_BYTES_S = 6_000_000
FEATURES = 1024
BATCH = 64
WORK = 3
EVALUATIONS = 20
"""Passes over the test after each epoch: about two seconds in which nothing is read."""

SETS = {"large.bin": 16_000, "small.bin": 6_000}
"""Images of each data set."""


class StreamedRecipe(msgspec.Struct, frozen=True):
    """A training.

    Attributes:
        at_s: When it arrives.
        core_s: CPU time of an epoch on a core of a server of 2020, as far as it is of interest for a picture.
    """

    job: str
    at_s: float
    data: str
    epochs: int
    core_s: float
    priority_class: str = ""


RECIPES = (
    StreamedRecipe("long-1", 0.0, "large.bin", 8, 5.0),
    StreamedRecipe("long-2", 0.5, "large.bin", 10, 5.0),
    StreamedRecipe("urgent-1", 32.0, "small.bin", 2, 2.2, "urgent"),
    StreamedRecipe("short-1", 36.0, "small.bin", 2, 2.2),
)


def workload(seed: int, length: float = 1.0) -> DemoWorkload:
    """The jobs and nodes.

    Args:
        seed: Of the trainings.
        length: Of the long trainings, relative to the usual.
    """
    rng = random.Random(seed)  # noqa: S311 - a workload is no secret
    nodes = tuple(NodeSpec(f"n{number}", Resources(cpu_m=NODE_M)) for number in (1, 2))
    return DemoWorkload(nodes=nodes, arrivals=tuple(_arrival(one, rng, length) for one in RECIPES))


@contextlib.contextmanager
def with_storage(given: DemoWorkload) -> Iterator[DemoWorkload]:
    """The workload with a storage server of its own, whose bandwidth all jobs share.

    Raises:
        InputError: The server is not installed.
        ClusterError: It does not start.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-storage-")))
        server = stack.enter_context(running_storage(folder))
        for name, images in SETS.items():
            write_images(server.data / name, images)
        write_features(server.data / "features.bin", FEATURES)
        link = stack.enter_context(running_link(server.address, STORAGE_BYTES_S))
        yield msgspec.structs.replace(given, storage=link)


def _arrival(recipe: StreamedRecipe, rng: random.Random, length: float) -> Arrival:
    epochs = max(2, round(recipe.epochs * length)) if recipe.at_s == 0 else recipe.epochs
    options = {"--epochs": epochs, "--batch": BATCH, "--work": WORK, "--evaluations": EVALUATIONS}
    options["--seed"] = rng.randrange(1000)
    command = (sys.executable, "-m", "steepest_lab.jobs.streamed", recipe.data)
    spec = JobSpec(
        command=(*command, *(str(word) for option in options.items() for word in option)),
        requests=Resources(cpu_m=NODE_M),
        model=MODEL,
        epochs=epochs,
        batch_size=BATCH,
        data_bytes=SETS[recipe.data] * RECORD_BYTES,
        priority=PRIORITIES[recipe.priority_class] if recipe.priority_class else 0,
        priority_class=recipe.priority_class,
    )
    return Arrival(at_s=recipe.at_s, job=recipe.job, kind="streamed", spec=spec, core_s=epochs * recipe.core_s)
