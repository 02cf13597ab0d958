"""What containers read from a real storage server is counted by their engine, as the server itself counts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.harness.docker_harness import why_not
from tests.harness.newest_reports import NewestReports
from tests.harness.waiting import until

from steepest.cluster.data_source import DataSource
from steepest.cluster.docker import Allowed, DockerCluster, DockerNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, running_engine
from steepest_lab.jobs.streamed_data import write_features, write_images
from steepest_lab.storage.server import StorageServer, found, running_storage

ALIKE = 0.02
BATCH, FEATURES, EPOCHS = 64, 64, 3
IMAGES = {"small": 60 * BATCH, "large": 180 * BATCH}
"""Of each data set. A training reads whole batches only, so that an epoch reads all of it."""

NODE = Resources(cpu_m=800, memory_mib=512)

# The engine measures once a second: the job stays for the count of its last bytes.
STAYS = "from steepest_lab.jobs import streamed; streamed.main(); import time; time.sleep(600)"


@pytest.fixture
def bridge() -> Iterator[tuple[str, str]]:
    """A bridge of this machine, and its address: an engine of a test has no network without one."""
    if why := why_not():
        pytest.skip(why)
    if found() is None:
        pytest.skip("no lighttpd; get it with: make storage (apt-get install lighttpd)")
    ip = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin")
    if ip is None:
        pytest.skip("there is no ip; get it with: make links")
    name, address = f"steep{os.getpid()}", f"10.232.{os.getpid() % 256}.1"
    made = subprocess.run([ip, "link", "add", name, "type", "bridge"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no bridge can be made here: {made.stderr.strip()}")
    try:
        subprocess.run([ip, "address", "add", f"{address}/24", "dev", name], check=True)
        subprocess.run([ip, "link", "set", name, "up"], check=True)
        yield name, address
    finally:
        subprocess.run([ip, "link", "delete", name], check=True)


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory, bridge: tuple[str, str]) -> Iterator[DockerEngine]:
    """An engine on the bridge, with the image of the demo's trainings."""
    folder = tmp_path_factory.mktemp("engine") / "e"
    with running_engine(folder, cpu_m=NODE.cpu_m, bridge=bridge[0], options=("--ip-forward=false",)) as started:
        with contextlib.closing(started.client()) as client:
            images.provide(client, images.default_folder(), demo=True)
        yield started


@pytest.fixture
def storage(tmp_path: Path, bridge: tuple[str, str]) -> Iterator[StorageServer]:
    """A server at the bridge's address, with a data set and features for each job."""
    folder = tmp_path / "storage"
    folder.mkdir()
    with running_storage(folder, host=bridge[1]) as server:
        for name, count in IMAGES.items():
            write_images(server.data / f"{name}.bin", count)
            write_features(server.data / f"{name}-features.bin", FEATURES)
        yield server


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_container_is_credited_with_what_the_server_sent_it(
    tmp_path: Path, engine: DockerEngine, storage: StorageServer
) -> None:
    """Two jobs read different amounts at the same time: 2 % of the server's own count at most."""
    state = tmp_path / "state"
    cluster = DockerCluster(
        state,
        [DockerNode(name="n1", url=engine.url, capacity=NODE)],
        "traffic",
        image=images.DEMO,
        allowed=Allowed((tmp_path,), state),
        heartbeat_s=0.5,
        data=DataSource(*storage.address),
    )
    reports = NewestReports()
    following = asyncio.create_task(reports.follow(cluster))
    try:
        for name in IMAGES:
            options = (
                f"{name}.bin",
                "--features",
                f"{name}-features.bin",
                "--epochs",
                f"{EPOCHS}",
                "--batch",
                f"{BATCH}",
            )
            await cluster.start(ReplicaId(name), 1, "n1", ReplicaSpec(command=("python3", "-c", STAYS, *options)), None)
        outputs = {files.replica.job: files.output for files in cluster.files("n1")}
        for name in IMAGES:
            data, features = (storage.data / f"{name}{of}.bin" for of in ("", "-features"))
            least = EPOCHS * data.stat().st_size + features.stat().st_size
            await until(partial(has_trained, outputs[name]), f"{name} to train")
            await until(partial(has_read, reports, name, least), f"the count of {name}")
        counted = {name: reports.read(name) for name in IMAGES}
        for name in IMAGES:
            await cluster.stop(ReplicaId(name), 1, grace_s=0)
    finally:
        following.cancel()
        await cluster.close()
    storage.stop()
    sent = storage.sent()
    for name in IMAGES:
        by_server = sent[f"/{name}.bin"] + sent[f"/{name}-features.bin"]
        assert counted[name] == pytest.approx(by_server, rel=ALIKE), name


def has_trained(output: Path) -> bool:
    """Whether a job has printed the end of its last epoch."""
    return output.exists() and f"epoch {EPOCHS} of {EPOCHS}" in output.read_text()


def has_read(reports: NewestReports, job: str, count: int) -> bool:
    """Whether so many bytes of it are counted."""
    return reports.read(job) >= count
