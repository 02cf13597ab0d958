"""An engine that is reached over TCP with TLS: with its keys it is a node like any other, without them it is no node."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture
from tests.harness.docker_harness import DockerHarness, why_not

from steepest.cluster.docker import DockerCluster, addresses
from steepest.errors import InputError
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, running_engine


def keys(folder: Path) -> Path:
    """A folder with an authority of its own, and a key with a certificate that is good for both ends of a connection."""
    folder.mkdir()
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    subject = ("-subj", "/CN=127.0.0.1")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for order in (
        ("req", "-x509", *new_key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2"),
        ("req", *new_key, "-keyout", "key.pem", "-out", "request.pem", *subject),
        (
            *("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial"),
            *("-extfile", str(extensions), "-out", "cert.pem", "-days", "2"),
        ),
    ):
        subprocess.run(["openssl", *order], cwd=folder, check=True, capture_output=True)
    return folder


def free_port() -> int:
    """A port that no process listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, DockerEngine]]:
    """An engine that listens with TLS: its address, the folder of the keys, and the engine."""
    if why := why_not():
        pytest.skip(why)
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make keys with; get it with: apt-get install openssl")
    folder = keys(tmp_path_factory.mktemp("remote") / "keys")
    url = f"tcp://127.0.0.1:{free_port()}"
    files = (f"--tlscacert={folder}/ca.pem", f"--tlscert={folder}/cert.pem", f"--tlskey={folder}/key.pem")
    options = (f"--host={url}", "--tlsverify", *files)
    with running_engine(tmp_path_factory.mktemp("engine") / "e", cpu_m=800, options=options) as engine:
        with contextlib.closing(engine.client()) as client:
            images.provide(client, images.default_folder())
        yield url, folder, engine


class RemoteHarness(DockerHarness):
    """The one engine, reached over TLS."""

    def __init__(self, state_dir: Path, url: str, tls: Path, engine: DockerEngine) -> None:
        [self._node] = addresses.nodes([(url, str(tls))])
        super().__init__(state_dir, {self._node.name: engine})
        self.nodes = {self._node.name: self._node.capacity, "elsewhere": self._node.capacity}  # a stage has two

    def make(
        self, *_: object, soft_limits: bool = False, host_network: bool = True, system_checkpoints: bool = False
    ) -> DockerCluster:
        """An adapter."""
        return DockerCluster(
            self.state.path,
            [self._node],
            self.pool,
            image=images.BASE,
            allowed=self.allowed,
            soft_limits=soft_limits,
            host_network=host_network,
            system_checkpoints=system_checkpoints,
            heartbeat_s=0.5,
        )


@pytest.fixture
async def harness(tmp_path: Path, remote: tuple[str, Path, DockerEngine]) -> AsyncIterator[RemoteHarness]:
    """An empty cluster on it."""
    async with contextlib.aclosing(RemoteHarness(tmp_path / "state", *remote)) as made:
        await made.come_back()
        yield made


async def test_a_job_trains_on_an_engine_behind_tls(harness: RemoteHarness) -> None:
    """It is started, measured, limited and stopped over TCP, and its statistics come in one stream."""
    stage = ClusterFixture(harness)
    await stage.train("--burn")
    report = await stage.report(lambda found: (found.cpu_m or 0) > 50)
    await stage.cluster.limit(JOB, 1, 200)
    streams = [thread.name for thread in threading.enumerate() if thread.name.startswith("stats-")]
    stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

    assert report.job == JOB.job
    assert len([stream for stream in streams if JOB.job in stream]) == 1
    assert stopped.exit_status == 85


@pytest.mark.parametrize("others", [True, False], ids=["another authority's keys", "no keys"])
def test_without_its_keys_it_is_no_node(
    remote: tuple[str, Path, DockerEngine], tmp_path: Path, *, others: bool
) -> None:
    """The error names the address, and nothing of it stays."""
    url, _, _ = remote
    with pytest.raises(InputError) as caught:
        addresses.nodes([(url, str(keys(tmp_path / "others")) if others else None)])

    assert caught.value.code == "no-engine"
    assert url in str(caught.value)
