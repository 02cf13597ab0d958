"""Builds images for jobs from Debian packages and this source tree, without any image registry.

``python -m steepest_lab.docker_engines.images FOLDER`` builds what is missing in a folder and imports it into the engine
that ``DOCKER_HOST`` names, if there is one. It owns the content of the images:

* ``steepest-base``: Debian with Python and NumPy, for jobs that need no more;
* ``steepest-demo``: the same with the demo's trainings, the SDK, and the data files of scikit-learn.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound
from docker.utils import kwargs_from_env

from steepest.errors import InputError

BASE = "steepest-base"
DEMO = "steepest-demo"
PACKAGES = ("python3", "python3-numpy")
RELEASE = "bookworm"

_USELESS = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)
_CONTENT = "steepest.content"  # a label of the demo's image: the digest of its content
_SITE = "/usr/lib/python3/dist-packages"


def default_folder() -> Path:
    """The folder of the tarball that ``make images`` builds: ``$STEEPEST_DOCKER_HOME`` or ``.docker``."""
    return Path(os.environ.get("STEEPEST_DOCKER_HOME", ".docker"))


def missing(folder: Path) -> str:
    """Why there are no images to import; empty if there are."""
    return "" if tarball(folder).exists() else f"there is no {tarball(folder)}"


def mirror() -> list[str]:
    """Where this machine's own sources, in either form of APT's files, have the release; none: as ``debootstrap`` knows."""
    with contextlib.suppress(OSError):  # there is no APT
        sources = subprocess.run(["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=False)
        return re.findall(rf"'(\S+)/dists/{RELEASE}/main/binary-", sources.stdout)[:1]
    return []


def make(folder: Path) -> Path:
    """Build the tarball of the base image unless it exists (80 s, 70 MB of packages); return its path.

    Raises:
        InputError: ``debootstrap`` is missing or failed.
    """
    path = tarball(folder)
    if path.exists():
        return path
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise InputError("there is no debootstrap on this machine", code="no-debootstrap", hint="make engine")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.absolute(), prefix="root-") as name:
        root = Path(name) / "root"
        order = [program, "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(root), *mirror()]
        done = subprocess.run(order, stdout=sys.stderr, check=False)
        if done.returncode:
            raise InputError(f"debootstrap ended with {done.returncode}", hint="read its output; it needs root")
        for useless in _USELESS:
            shutil.rmtree(root / useless, ignore_errors=True)
        temporary = Path(name) / path.name
        subprocess.run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(temporary), "."], check=True)
        temporary.replace(path)
    return path


def provide(client: docker.APIClient, folder: Path, *, demo: bool = False) -> None:
    """Import the images that an engine does not have yet (3 s).

    Args:
        client: The engine's client.
        folder: The folder of the tarball.
        demo: Whether to build the demo's image too, from the current sources.

    Raises:
        InputError: There is no tarball.
    """
    if why := missing(folder):
        raise InputError(why, code="no-images", hint="make images")
    if _labels(client, BASE) is None:
        client.import_image_from_file(
            str(tarball(folder)), repository=BASE, tag="latest", changes=['CMD ["python3"]', "ENV PYTHONUNBUFFERED=1"]
        )
    if demo:
        _provide_demo(client)


def _provide_demo(client: docker.APIClient) -> None:
    content = demo_content()
    digest = hashlib.sha256(content).hexdigest()
    if (_labels(client, DEMO) or {}).get(_CONTENT) == digest:
        return
    made = client.create_container(BASE, "true")["Id"]
    try:
        client.put_archive(made, "/", content)
        client.commit(made, repository=DEMO, tag="latest", changes=[f"LABEL {_CONTENT}={digest}"])
    finally:
        client.remove_container(made, force=True)


def demo_content() -> bytes:
    """The trainings, the SDK and the data as a tar file, which is identical for identical content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for place, file in sorted(_demo_files()):
            info = tarfile.TarInfo(f"{_SITE}/{place}".lstrip("/"))
            data = file.read_bytes()
            info.size = len(data)
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _demo_files() -> Iterator[tuple[str, Path]]:
    """Each file's path below the packages folder, and its path on this machine."""
    lab = _package("steepest_lab")
    yield "steepest_lab/__init__.py", lab / "__init__.py"
    for folder, place, patterns in (
        (lab / "jobs", "steepest_lab/jobs", ("**/*.py",)),
        (_package("steepest_sdk"), "steepest_sdk", ("**/*.py",)),
        (_package("sklearn") / "datasets", "sklearn/datasets", ("data/d*.gz", "descr/*.rst")),
    ):
        for pattern in patterns:
            for file in folder.glob(pattern):
                yield f"{place}/{file.relative_to(folder).as_posix()}", file


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"the demo's image needs {name}", hint="install steepest-lab, or run `make setup`")
    return Path(next(iter(found.submodule_search_locations)))


def _labels(client: docker.APIClient, image: str) -> dict[str, str] | None:
    """The labels of an image; None if the engine does not have it."""
    try:
        return client.inspect_image(image)["Config"]["Labels"] or {}
    except ImageNotFound:
        return None


def tarball(folder: Path) -> Path:
    """The root file system of the base image."""
    return folder / f"{BASE}-{RELEASE}.tar"


def main() -> None:
    """Build the tarball, and import both images if an engine answers."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    try:
        print(f"{BASE}: {make(folder)}")  # noqa: T201 - the command's output
        with contextlib.closing(docker.APIClient(**kwargs_from_env(), version="auto")) as client:
            provide(client, folder, demo=True)
            print(f"{BASE} and {DEMO} are in the engine at {client.base_url}")  # noqa: T201 - the command's output
    except InputError as error:
        sys.exit(f"{error}\n{error.hint}")
    except DockerException as error:
        print(f"no engine to import them into: {error}")  # noqa: T201 - the tests' engines import the tarball themselves


if __name__ == "__main__":
    main()
