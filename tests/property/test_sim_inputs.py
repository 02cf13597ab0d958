"""A reader turns any file into a sound workload or refuses it; it never fails otherwise."""

from __future__ import annotations

import gzip
import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.errors import InputError
from steepest.events.common import Name, Resources
from steepest_lab.sim.clusters import open_cluster, read_cluster
from steepest_lab.sim.losses.training import JobLosses
from steepest_lab.sim.workload import SimJob, Workload
from steepest_lab.sim.workloads.names import fit_names
from steepest_lab.sim.workloads.read import read_workload
from tools.real_curves import algoperf_curves, pollux_curves, taskset_curves

from ..unit.sim.samples import SAMPLES, written  # noqa: TID252 - the samples are those of the unit tests

MUTATIONS = 400

TOKENS = [
    *("", " ", ",", "\t", "\n", "\r\n", '"', "'", "{", "}", "[", ":", "null", "true", "-", ".", "0", "-1", "9" * 25),
    *("1e308", "1e-320", "nan", "inf", "0x10", "1_000", "½", "\u2028", "\0", "\ufeff", "x" * 70, "Job A", "../x"),
]
RUN = (
    '{"run":"r","workload":"wmt","train":[[0,8.0],[1,7.5],[2,3.0],[3,2.5],[4,2.4],[5,2.3],[6,2.2],[7,2.1],'
    '[8,2.0],[9,1.9],[10,1.8]],"evals":[[10,1.0]]}\n'
)
CLUSTER = '[[node]]\nname = "fast"\ncount = 2\ngpus = 4\nspeed = 1.5\n\n[[node]]\ncpus = 8\nmemory_gib = 16\n'


def mutated(text: str, draw: random.Random) -> bytes:
    """A text after one to four changes: cuts, doubled, swapped and lost lines, other cells, bytes and numbers."""
    data = text
    for _ in range(draw.randint(1, 4)):
        lines = data.split("\n")
        at = draw.randrange(len(data) + 1)
        line = draw.randrange(len(lines))
        other = draw.randrange(len(lines))
        match draw.randrange(8):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + draw.choice(TOKENS) + data[at + draw.randint(0, 3) :]
            case 2:
                lines[line], lines[other] = lines[other], lines[line]
                data = "\n".join(lines)
            case 3:
                data = "\n".join([*lines[:line], lines[other], *lines[line:]])
            case 4:
                data = "\n".join([*lines[:line], *lines[line + 1 :]])
            case 5:
                parting = "\t" if "\t" in data else ","
                cells = lines[line].split(parting)
                cells[draw.randrange(len(cells))] = draw.choice(TOKENS)
                lines[line] = parting.join(cells)
                data = "\n".join(lines)
            case 6:
                data = "".join(draw.choice("0123456789-.e") if c.isdigit() and draw.random() < 0.1 else c for c in data)
            case _:
                data = data[:at] + chr(draw.choice([*range(128), 233, 0x663, 0x1F600])) + data[at:]
    raw = data.encode()
    if draw.random() < 0.2:
        raw = gzip.compress(raw)
        if draw.random() < 0.5:
            place = draw.randrange(len(raw))
            raw = raw[:place] + bytes([draw.randrange(256)]) + raw[place + draw.randint(0, 2) :]
    return raw


def refusal(read: Callable[[Path], object], path: Path) -> str:
    """What a reader says of a file that it refuses; the file's name where it reads it."""
    try:
        read(path)
    except InputError as error:
        return str(error)
    return str(path)


def assert_sound(workload: Workload) -> None:
    """What every policy may rely on."""
    assert workload.jobs
    times = [job.submit_s for job in workload.jobs]
    assert times == sorted(times)
    assert len({job.name for job in workload.jobs}) == len(times)
    for job in workload.jobs:
        msgspec.convert(job.name, Name)
        assert 0 <= job.submit_s <= 1e10
        assert 0 < job.work_s <= 1e10
        assert 1 <= job.iterations <= 10**15
        assert job.replicas >= 1
        assert job.gpus <= 10**12
        msgspec.convert(msgspec.to_builtins(job), SimJob)
        assert 0 < JobLosses(job, 1).loss(1) < math.inf


@pytest.mark.parametrize("format_", SAMPLES)
def test_readers_of_workloads(format_: str, tmp_path: Path) -> None:
    """Many mutations of a sound file of each format: a sound workload, or an error that names the file."""
    sound: list[Workload] = []
    for seed in range(MUTATIONS):
        path = written(tmp_path, mutated(SAMPLES[format_], random.Random(f"{format_}/{seed}")))
        assert refusal(lambda path: sound.append(read_workload(path)), path).startswith(str(path)), seed
    for workload in sound:
        assert_sound(workload)

    assert 0.05 * MUTATIONS < len(sound) < 0.8 * MUTATIONS


@given(data=st.binary(max_size=400))
@settings(max_examples=scaled(300), deadline=None)
def test_readers_of_workloads_on_noise(data: bytes) -> None:
    """The same of bytes that were never a workload, compressed and not."""
    with tempfile.TemporaryDirectory() as folder:
        for content in (data, gzip.compress(data)):
            with pytest.raises(InputError):
                read_workload(written(Path(folder), content))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (CLUSTER, read_cluster),
        (
            RUN,
            lambda path: list(algoperf_curves(path)),
        ),
        (
            '[{"train":{"loss":[1.0,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1,NaN]}},{"train":{"loss":[1.0,0.5]}}]',
            lambda path: list(taskset_curves(path)),
        ),
    ],
    ids=["cluster", "algoperf", "taskset"],
)
def test_readers_of_clusters_and_curves(text: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    """The same of the other files that a simulation or its tools read."""
    sound: list[object] = []
    for seed in range(MUTATIONS):
        path = written(tmp_path, mutated(text, random.Random(seed)))
        assert refusal(lambda path: sound.append(read(path)), path).startswith(str(path)), seed

    assert 0 < len(sound) < 0.8 * MUTATIONS


def test_the_reader_of_validation_tables(tmp_path: Path) -> None:
    """The same of Pollux's tables, which lie in a folder an application."""
    rows = "".join(f"{epoch * 391}.0,{epoch * 390},{0.4 + epoch / 50},8.9,5.0\n" for epoch in range(1, 13))
    (tmp_path / "cifar10").mkdir()
    sound: list[object] = []
    path = tmp_path / "cifar10" / "validation-128.csv"
    for seed in range(MUTATIONS):
        table = mutated(f"progress,iteration,metric,grad_sqr,grad_var\n{rows}", random.Random(seed))
        path.write_bytes(table)
        assert refusal(lambda path: sound.append([*pollux_curves(path.parents[1])]), path).startswith(str(path)), seed

    assert 0 < len(sound) < 0.8 * MUTATIONS


@given(
    name=st.text(max_size=30) | st.from_regex(r"\d{1,6}x\d{1,6}(cpu|gpu)(\+\d{1,3}x\d{1,3}(cpu|gpu))?", fullmatch=True)
)
@settings(max_examples=scaled(150), deadline=None)
def test_names_of_clusters(name: str) -> None:
    """A name is a cluster of nodes that have something, or is refused."""
    try:
        cluster = open_cluster(name)
    except InputError:
        return
    assert cluster.nodes
    assert len({node.name for node in cluster.nodes}) == len(cluster.nodes)
    for node in cluster.nodes[:: max(1, len(cluster.nodes) // 20)]:
        msgspec.convert(node.name, Name)
        assert node.capacity.cpu_m > 0
        assert node.capacity.memory_mib > 0


@given(names=st.lists(st.text(max_size=80), unique=True, max_size=30))
@settings(max_examples=scaled(200), deadline=None)
def test_names_of_jobs(names: list[str]) -> None:
    """Fitted names are valid in the log, distinct where they were, and independent of the names around them."""
    fitted = fit_names(names)

    assert len({*fitted}) == len(names)
    for name, found in zip(names, fitted, strict=True):
        msgspec.convert(found, Name)
        assert fit_names([name]) == [found]


RESOURCES = st.builds(Resources, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 64))
JOBS = st.builds(
    SimJob,
    name=st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True),
    submit_s=st.floats(0, 1e10),
    requests=RESOURCES,
    replicas=st.integers(1, 1_000),
    work_s=st.floats(1e-6, 1e10),
    iterations=st.integers(1, 10**15),
    model=st.text(max_size=50),
    batch_size=st.none() | st.integers(1, 10**6),
    memory_mib=st.integers(0, 10**6),
    demand_cpu_m=st.integers(0, 10**6),
    fails_at=st.floats(0, 1),
    details=st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
)


@given(jobs=st.lists(JOBS, min_size=1, max_size=5, unique_by=lambda job: job.name))
@settings(max_examples=scaled(100), deadline=None)
def test_json_lines_keep_every_job(jobs: list[SimJob]) -> None:
    """What is written a line a job comes back, in the order of submission."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), b"\n".join(msgspec.json.encode(job) for job in jobs))
        read = read_workload(path).jobs

    assert list(read) == sorted(jobs, key=lambda job: job.submit_s)
