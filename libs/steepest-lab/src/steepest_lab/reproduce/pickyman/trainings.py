"""The trainings of the experiments: what they read, in which batches, with how many workers; and the storage they read from.

Each worker has an emulated node of its own, so that other trainings take no CPU time from it.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.events.cluster import JobSpec, Role
from steepest.events.common import Resources
from steepest_lab.demo.workload import Arrival, DemoWorkload
from steepest_lab.jobs.streamed_data import RECORD_BYTES, write_features, write_images
from steepest_lab.storage.link import running_link
from steepest_lab.storage.server import running_storage

MODEL = "random features"
NODES = 4
NODE_M = 350
FEATURES = 1024
EVALUATIONS = 8
WORK = 1
STORAGE_BYTES_S = 24_000_000
PROFILED_EPOCHS, EPOCHS = 5, 4
SLICED_EPOCHS = 44
"""Of a sliced training of ``SLICED_MEAN_IMAGES``; smaller ones have more, so that all are as long."""

SLICED_WORK, SLICED_EVALUATIONS = 4, 4
"""Their epochs take most of a minute: the rest of one is known to some tenths of a second."""

SLICED_MEAN_IMAGES = 24_000
SLICED_IMAGES = (18_000, 20_000, 24_000, 28_000)
"""Of different sizes, so that slices end at different parts of an epoch."""

WIDE_FEATURES = 4096
"""Of trainings that are measured: an epoch takes ten seconds or more, and a start several, as nodes report each second."""

SLICED_STORAGE_BYTES_S = 3_000_000
"""Starts take as long as their reading; epochs do not."""

CROWD, CROWD_GAP_S = 16, 4.0
"""Trainings that are compared, and the mean time between two: they come 2.5 times as fast as four nodes can run them."""

CROWD_IMAGES = (1_400, 2_000, 2_600)
CROWD_EPOCHS = (2, 16)
"""Log-uniform, so that most trainings are short and few are long."""

CROWD_EVALUATIONS, CROWD_STORAGE_BYTES_S = 2, 5_000_000
"""Epochs take 4 to 6 s, and a start 5 s or more: a preemption costs a quarter of a training of middle length."""


class StreamedSetting(msgspec.Struct, frozen=True):
    """The setting on which a training's time depends.

    Attributes:
        images: Of its data set.
        batch: Images a step, of all workers together.
    """

    images: int
    batch: int
    workers: int

    @property
    def file(self) -> str:
        """Its data set on the server."""
        return f"{self.images}.bin"


PROFILED = (
    StreamedSetting(16_000, 32, 1),
    StreamedSetting(32_000, 128, 1),
    StreamedSetting(16_000, 128, 2),
    StreamedSetting(20_000, 32, 2),
)
"""Four settings, which determine four parameters. They are far apart in every term of the time model, so that an error of a
measured epoch is hardly larger in the predictions of :data:`OTHERS`."""

OTHERS = (
    StreamedSetting(16_000, 64, 1),
    StreamedSetting(20_000, 96, 1),
    StreamedSetting(28_000, 64, 1),
    StreamedSetting(18_000, 32, 1),
    StreamedSetting(24_000, 96, 2),
    StreamedSetting(32_000, 128, 2),
    StreamedSetting(20_000, 64, 2),
    StreamedSetting(30_000, 64, 3),
)
"""Other sizes, batches and numbers of workers."""


def nodes() -> tuple[NodeSpec, ...]:
    """A node for each of four workers."""
    return tuple(NodeSpec(f"n{number}", Resources(cpu_m=NODE_M)) for number in range(1, NODES + 1))


def training(
    job: str,
    setting: StreamedSetting,
    *,
    at_s: float,
    epochs: int,
    seed: int,
    after: int = 0,
    features: int = FEATURES,
    work: int = WORK,
    evaluations: int = EVALUATIONS,
) -> Arrival:
    """A training as it is submitted."""
    options = {"--epochs": epochs, "--batch": setting.batch, "--work": work, "--evaluations": evaluations}
    named = (*options.items(), ("--features", _features_file(features)), ("--seed", seed))
    words = [str(word) for option in named for word in option]
    each = Resources(cpu_m=NODE_M)
    spec = JobSpec(
        command=(sys.executable, "-m", "steepest_lab.jobs.streamed", setting.file, *words),
        requests=each,
        model=MODEL,
        epochs=epochs,
        batch_size=setting.batch,
        data_bytes=setting.images * RECORD_BYTES,
    )
    if setting.workers > 1:
        workers = Role(name="worker", replicas=setting.workers, requests=each)
        spec = msgspec.structs.replace(spec, roles=(workers,), requests=Resources())
    return Arrival(at_s=at_s, job=job, kind="streamed", spec=spec, core_s=0.0, after=after)


def predicted_workload(
    seed: int, profiled: Sequence[StreamedSetting], others: Sequence[StreamedSetting]
) -> DemoWorkload:
    """Profiled trainings, and others that are submitted when all of those are over."""
    first = [
        training(f"profiled-{number}", setting, at_s=0.0, epochs=PROFILED_EPOCHS, seed=seed, features=WIDE_FEATURES)
        for number, setting in enumerate(profiled, 1)
    ]
    then = [
        training(
            f"other-{number}", setting, at_s=0.0, epochs=EPOCHS, seed=seed, after=len(first), features=WIDE_FEATURES
        )
        for number, setting in enumerate(others, 1)
    ]
    return DemoWorkload(nodes=nodes(), arrivals=(*first, *then))


def crowded_workload(seed: int) -> DemoWorkload:
    """Trainings of very different lengths, more than the nodes can run; they come once four of their model are profiled."""
    rng = random.Random(seed)  # noqa: S311 - a workload is no secret

    def one(job: str, images: int, epochs: int, *, at_s: float, after: int = 0) -> Arrival:
        return training(
            job,
            StreamedSetting(images, 64, 1),
            at_s=round(at_s, 1),
            epochs=epochs,
            seed=seed,
            after=after,
            features=WIDE_FEATURES,
            work=SLICED_WORK,
            evaluations=CROWD_EVALUATIONS,
        )

    profiled = [*CROWD_IMAGES, CROWD_IMAGES[-1]]
    found = [one(f"profiled-{number}", images, PROFILED_EPOCHS, at_s=0.0) for number, images in enumerate(profiled, 1)]
    at_s = 0.0
    for number in range(1, CROWD + 1):
        epochs = round(math.exp(rng.uniform(*map(math.log, CROWD_EPOCHS))))
        found.append(one(f"job-{number}", rng.choice(CROWD_IMAGES), epochs, at_s=at_s, after=len(profiled)))
        at_s += rng.expovariate(1 / CROWD_GAP_S)
    return DemoWorkload(nodes=nodes(), arrivals=tuple(found))


def sliced_workload(seed: int, epochs: int) -> DemoWorkload:
    """Twice as many long trainings as nodes, so that slices are over again and again."""
    given = tuple(
        training(
            f"job-{number}",
            StreamedSetting(images, 64, 1),
            at_s=0.0,
            epochs=round(epochs * SLICED_MEAN_IMAGES / images),
            seed=seed,
            features=WIDE_FEATURES,
            work=SLICED_WORK,
            evaluations=SLICED_EVALUATIONS,
        )
        for number, images in enumerate(SLICED_IMAGES, 1)
    )
    return DemoWorkload(nodes=nodes()[:2], arrivals=given)


def _features_file(features: int) -> str:
    return f"features-{features}.bin"


@contextlib.contextmanager
def with_storage(given: DemoWorkload, bytes_s: int = STORAGE_BYTES_S) -> Iterator[DemoWorkload]:
    """The workload, with a storage server for all its data behind a link of limited bandwidth.

    Raises:
        InputError: The server is not installed.
        ClusterError: It does not start.
    """
    files = {arrival.spec.command[3]: arrival.spec.data_bytes for arrival in given.arrivals}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="steepest-storage-")))
        server = stack.enter_context(running_storage(folder))
        for name, size in files.items():
            write_images(server.data / name, (size or 0) // RECORD_BYTES)
        for features in (FEATURES, WIDE_FEATURES):
            write_features(server.data / _features_file(features), features)
        link = stack.enter_context(running_link(server.address, bytes_s))
        yield msgspec.structs.replace(given, storage=link)
