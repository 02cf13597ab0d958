"""The lab's images, as archives that containerd imports: no registry is ever asked.

It owns their content: ``steepest-pause`` (the first process of every pod) and ``steepest-demo`` (Debian with Python and
NumPy, the SDK and the demo's trainings; its base is the tarball of ``make images``).
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest_lab.docker_engines import images as docker_images
from tools.kubernetes_lab.layout import LabFolder

DEMO = "docker.io/library/steepest-demo:latest"
PAUSE = "docker.io/library/steepest-pause:latest"
_CHUNK = 1 << 20


def missing() -> str:
    """Why the images cannot be made; empty if they can."""
    return docker_images.missing(docker_images.default_folder())


def make(folder: LabFolder) -> list[Path]:
    """Make the archives that are missing or whose content has changed.

    Raises:
        InputError: The base image is missing.
    """
    if why := missing():
        raise InputError(why, code="no-images", hint="make engine images")
    folder.images.mkdir(parents=True, exist_ok=True)
    base = docker_images.tarball(docker_images.default_folder())
    content = _kept(folder.images / "demo-layer.tar", docker_images.demo_content())
    pause = _kept(folder.images / "pause-layer.tar", _tar({"pause": Path(folder.program("pause")).read_bytes()}))
    python = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED=1"], "Cmd": ["python3"]}
    return [
        archive(folder.images / "pause.tar", PAUSE, [pause], {"Cmd": ["/pause"]}),
        archive(folder.images / "demo.tar", DEMO, [base, content], python),
    ]


def layers_of(path: Path) -> str:
    """The digests of the layers of an archive."""
    return path.with_suffix(".layers").read_text()


def archive(path: Path, name: str, layers: Sequence[Path], config: Mapping[str, object]) -> Path:
    """Write an archive in the format of ``docker save``, unless one with the same layers is there."""
    digests = [_digest(layer) for layer in layers]
    mark = path.with_suffix(".layers")
    if path.exists() and mark.exists() and mark.read_text() == " ".join(digests):
        return path
    described = msgspec.json.encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    )
    config_name = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar" for digest in digests]}]
    with tarfile.open(path, "w") as tar:
        for place, data in ((config_name, described), ("manifest.json", msgspec.json.encode(manifest))):
            _add(tar, place, data)
        for layer, digest in zip(layers, digests, strict=True):
            tar.add(layer, f"{digest}/layer.tar")
    mark.write_text(" ".join(digests))
    return path


def _kept(path: Path, content: bytes) -> Path:
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)
    return path


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            _add(archive, name, data, mode=0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = mode
    archive.addfile(info, io.BytesIO(data))
