"""What jobs read from a real storage server is counted on the way, as the server itself counts it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.harness.newest_reports import NewestReports
from tests.harness.waiting import until

from steepest.cluster.data_source import DataSource
from steepest.cluster.folders.gang_ports import is_unused
from steepest.cluster.local.cluster import LocalCluster, LocalNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import ClusterError
from steepest.events.common import Resources
from steepest_lab.jobs.streamed_data import write_images
from steepest_lab.storage.link import running_link
from steepest_lab.storage.server import StorageServer

STREAMED = (sys.executable, "-m", "steepest_lab.jobs.streamed")
ALIKE = 0.02


@asynccontextmanager
async def emulated(folder: Path, data: DataSource) -> AsyncIterator[tuple[LocalCluster, NewestReports]]:
    """An emulated node whose jobs read there; what still runs at the end is stopped."""
    nodes = [LocalNode("n1", Resources(cpu_m=2_000))]
    cluster = LocalCluster(folder, nodes, "traffic", heartbeat_s=0.1, data=data)
    reports = NewestReports()
    following = asyncio.create_task(reports.follow(cluster))
    try:
        yield cluster, reports
    finally:
        for job in reports.newest:
            if not reports.has_ended(job)():
                await cluster.stop(ReplicaId(job), 1, grace_s=0)
        following.cancel()
        await cluster.close()


async def test_each_job_is_credited_with_what_the_server_sent_it(tmp_path: Path, storage: StorageServer) -> None:
    """Two jobs read different amounts at the same time over a narrow link: 2 % of the server's own count at most."""
    for name, images in (("small", 400), ("large", 1200)):
        write_images(storage.data / f"{name}.bin", images)
        (storage.data / f"{name}-features.bin").write_bytes((storage.data / "features.bin").read_bytes())
    with running_link(storage.address, 4_000_000) as link:
        host, _, port = link.removeprefix("http://").partition(":")
        async with emulated(tmp_path / "cluster", DataSource(host, int(port))) as (cluster, reports):
            for name in ("small", "large"):
                options = (f"{name}.bin", "--features", f"{name}-features.bin", "--epochs", "3")
                await cluster.start(ReplicaId(name), 1, "n1", ReplicaSpec(command=(*STREAMED, *options)), None)
            for name in ("small", "large"):
                await until(reports.has_ended(name), f"{name} to end")
                assert reports.newest[name].exit_status == 0
    storage.stop()
    sent = storage.sent()
    for name in ("small", "large"):
        by_server = sent[f"/{name}.bin"] + sent[f"/{name}-features.bin"]
        assert reports.read(name) == pytest.approx(by_server, rel=ALIKE)


LIAR = """
import http.client, os, sys, time, urllib.request
url = os.environ["STEEPEST_DATA_URL"]
folder = os.path.dirname(os.environ["STEEPEST_CONTROL"])
for _ in range(20):
    urllib.request.urlopen(url + "/data.bin").read()
    with open(os.path.join(folder, "traffic"), "r+b") as file:
        file.write(b"\\xff" * 8)
print(url, flush=True)
urllib.request.urlopen(url + "/data.bin").read()
time.sleep(600)
"""


async def test_a_job_cannot_say_what_it_has_read(tmp_path: Path, storage: StorageServer) -> None:
    """One that writes to the count's file is overruled by the next byte; with the job, its way to the data is gone."""
    (storage.data / "data.bin").write_bytes(bytes(100_000))
    async with emulated(tmp_path / "cluster", DataSource(*storage.address)) as (cluster, reports):
        spec = ReplicaSpec(command=(sys.executable, "-c", LIAR))
        await cluster.start(ReplicaId("liar"), 1, "n1", spec, None)
        await until(lambda: 2_100_000 <= reports.read("liar") < 2_200_000, "the true count")
        (files,) = cluster.files("n1")
        (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)\n", files.output.read_text())
        await cluster.stop(ReplicaId("liar"), 1, grace_s=0)
        await until(lambda: is_unused(int(port)), "the relay to end")


async def test_a_storage_that_does_not_answer_costs_its_reader_only(tmp_path: Path, storage: StorageServer) -> None:
    """The job gets an error, and is reported with what it has read: nothing."""
    address = storage.address
    storage.stop()
    async with emulated(tmp_path / "cluster", DataSource(*address)) as (cluster, reports):
        await cluster.start(ReplicaId("lost"), 1, "n1", ReplicaSpec(command=(*STREAMED, "data.bin")), None)
        await until(reports.has_ended("lost"))
        assert reports.newest["lost"].exit_status not in (0, None)
        assert reports.read("lost") == 0


async def test_a_job_that_cannot_start_leaves_no_relay(tmp_path: Path, storage: StorageServer) -> None:
    """The same incarnation may be started again."""
    async with emulated(tmp_path / "cluster", DataSource(*storage.address)) as (cluster, reports):
        with pytest.raises(ClusterError):
            await cluster.start(ReplicaId("none"), 1, "n1", ReplicaSpec(command=("/dev/null",)), None)
        await cluster.start(ReplicaId("none"), 1, "n1", ReplicaSpec(command=(sys.executable, "-c", "")), None)
        await until(reports.has_ended("none"))
        assert reports.newest["none"].exit_status == 0
