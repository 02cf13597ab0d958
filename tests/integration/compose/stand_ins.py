"""Images with the names that compose.yaml has, of the same software from Debian and Maven: no image registry is asked.

They stand in for the official images as far as compose.yaml uses them: the same commands, places and variables. Not here:
Grafana, which neither offers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import docker

from steepest_lab.docker_engines import images as docker_images

HERE = Path(__file__).parent
COMMON = "steepest-stand-in"
CERTIFICATES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
"""The machine's certificates: a build behind a company's proxy needs the proxy's certificate in the image."""

COMMON_FILE = f"""\
FROM {docker_images.BASE}
COPY certificates.crt /etc/certificates.crt
ENV PIP_CERT=/etc/certificates.crt SSL_CERT_FILE=/etc/certificates.crt
RUN apt-get update -q && apt-get install -q -y --no-install-recommends \
      mosquitto openjdk-17-jre-headless prometheus python3-venv && rm -rf /var/lib/apt/lists
"""

FILES = {
    "python": f"FROM {COMMON}\n",
    "apache/kafka": f"""\
FROM {COMMON}
COPY libs /opt/kafka/libs
COPY kafka.sh /etc/kafka/docker/run
RUN useradd --uid 1000 appuser && install -d -o appuser /var/lib/kafka/data
USER appuser
CMD ["sh", "/etc/kafka/docker/run"]
""",
    "eclipse-mosquitto": f"""\
FROM {COMMON}
RUN install -d -o mosquitto /mosquitto/data
CMD ["/usr/sbin/mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]
""",
    "prom/prometheus": f"""\
FROM {COMMON}
RUN install -d -o nobody /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
""",
}


def provide(client: docker.APIClient, images: Sequence[str], *, home: Path, kafka: Path) -> None:
    """Build the images that have a stand-in; a cached image takes a second.

    Args:
        client: A client of the engine, whose builds must reach the machine's network.
        images: Names with tags.
        home: Where ``make images`` has put the base image.
        kafka: The broker's jars.
    """
    docker_images.provide(client, home)
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copy(CERTIFICATES, context / "certificates.crt")
        shutil.copy(HERE / "kafka.sh", context)
        shutil.copytree(kafka, context / "libs")
        _build(client, context, COMMON_FILE, COMMON)
        for image in images:
            with contextlib.suppress(KeyError):
                _build(client, context, FILES[image.partition(":")[0]], image)


def _build(client: docker.APIClient, context: Path, dockerfile: str, tag: str) -> None:
    (context / "Dockerfile").write_text(dockerfile)
    said = []
    for part in client.build(path=str(context), tag=tag, network_mode="host", decode=True, rm=True):
        said.append(part.get("stream", ""))
        if "error" in part:
            raise AssertionError(f"{tag}: {part['error']}\n{''.join(said)[-2000:]}")
