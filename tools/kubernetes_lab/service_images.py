"""The images that the chart needs in the lab: the services', and Kafka's. They are made here, because no registry is asked.

It owns their content: ``steepest`` has what the Dockerfile installs, ``steepest-kafka`` the jars of ``make kafka`` with
Debian's Java, and of Kafka's own image the two scripts that the chart calls.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from steepest.errors import InputError
from steepest.log.kafka.broker import HOME as KAFKA
from steepest_lab.docker_engines import images as docker_images
from tools.kubernetes_lab.images import archive, missing
from tools.kubernetes_lab.layout import LabFolder

SERVICES = "docker.io/library/steepest:latest"
BROKER = "docker.io/library/steepest-kafka:latest"

_ROOT = Path(__file__).parents[2]
_SITE = "opt/steepest"
_JAVA = "openjdk-17-jre-headless"
_SCRIPT = """#!/bin/sh
JAVA=/usr/lib/jvm/java-17-openjdk-amd64/bin/java
exec $JAVA ${{KAFKA_HEAP_OPTS:-}} -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' {name} "$@"
"""
_SCRIPTS = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}


def make(folder: LabFolder) -> list[Path]:
    """Make the archives that are missing or whose content has changed. It needs PyPI and Debian's archive.

    Raises:
        InputError: The base image or Kafka's jars are missing, or a package cannot be had.
    """
    if why := missing():
        raise InputError(why, code="no-images", hint="make engine images")
    if not KAFKA.joinpath("libs").is_dir():
        raise InputError(f"there are no jars in {KAFKA}", code="no-kafka", hint="make kafka")
    base, parts = docker_images.tarball(docker_images.default_folder()), folder.images / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    locked = _ROOT / "requirements" / "runtime.txt"
    packages = [*sorted(_ROOT.glob("libs/*")), _ROOT / "services"]
    sources = [file for package in packages for file in _sources(package)]
    jars = sorted(KAFKA.joinpath("libs").glob("*.jar"))
    python = {
        "Env": [f"PATH=/{_SITE}/bin:/usr/local/bin:/usr/bin:/bin", f"PYTHONPATH=/{_SITE}", "PYTHONUNBUFFERED=1"],
        "Cmd": ["steepest", "up"],
    }
    return [
        archive(
            folder.images / "services.tar",
            SERVICES,
            [
                base,
                _layer(parts, "dependencies", [locked], lambda top: _install(top, "--require-hashes", "-r", locked)),
                _layer(parts, "sources", sources, lambda top: _install(top, *packages)),
            ],
            python,
        ),
        archive(
            folder.images / "kafka.tar",
            BROKER,
            [base, _layer(parts, "java", [], _java), _layer(parts, "kafka", jars, lambda top: _kafka(top, jars))],
            {"Cmd": ["sh"]},
        ),
    ]


def _layer(parts: Path, name: str, inputs: Sequence[Path], fill: Callable[[Path], None]) -> Path:
    """A layer that ``fill`` makes in an empty folder, unless one of the same inputs is there."""
    digest = hashlib.sha256(_SCRIPT.encode())
    for path in inputs:
        digest.update(str(path).encode() + hashlib.sha256(path.read_bytes()).digest())
    layer = parts / f"{name}-{digest.hexdigest()[:16]}.tar"
    if layer.exists():
        return layer
    with tempfile.TemporaryDirectory(dir=parts.absolute(), prefix=f"{name}-") as made:
        top = Path(made) / "root"
        top.mkdir()
        fill(top)
        temporary = Path(made) / layer.name
        with tarfile.open(temporary, "w") as tar:
            tar.add(top, ".", filter=_owned_by_root)
        temporary.replace(layer)
    for older in parts.glob(f"{name}-*.tar"):
        if older != layer:
            older.unlink()
    return layer


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _sources(package: Path) -> Iterator[Path]:
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _install(top: Path, *arguments: str | Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    order = [uv, "pip", "install", "--quiet", "--python-version", "3.11", "--no-deps"]
    target = top / _SITE
    _run([*order, "--compile-bytecode", "--link-mode=copy", "--target", target, *arguments])
    for script in (target / "bin").iterdir():
        lines = script.read_bytes().split(b"\n", 1)
        if lines[0].startswith(b"#!") and b"python" in lines[0]:
            script.write_bytes(b"#!/usr/bin/python3\n" + lines[1])


def _java(top: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        _run(["apt-get", "download", "-q", _JAVA], cwd=Path(made))
        (package,) = Path(made).glob("*.deb")
        _run(["dpkg-deb", "-x", package, top])


def _kafka(top: Path, jars: Sequence[Path]) -> None:
    libraries, scripts = top / "opt/kafka/libs", top / "opt/kafka/bin"
    libraries.mkdir(parents=True)
    scripts.mkdir()
    for jar in jars:
        shutil.copy(jar, libraries)
    for script, name in _SCRIPTS.items():
        (scripts / script).write_text(_SCRIPT.format(name=name))
        (scripts / script).chmod(0o755)


def _run(order: Sequence[str | Path], cwd: Path | None = None) -> None:
    done = subprocess.run(order, cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{' '.join(map(str, order[:3]))} ended with {done.returncode}: {done.stderr[-2000:]}")
