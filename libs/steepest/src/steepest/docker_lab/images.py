"""Images for jobs, made of Debian packages and this source tree alone: no image registry is ever asked.

``python -m steepest.docker_lab.images FOLDER`` makes what is missing in a folder and imports it into the engine that
``DOCKER_HOST`` names, where there is one. It owns what is in the images:

* ``steepest-base``: Debian with Python and NumPy, for any job that needs no more;
* ``steepest-demo``: the same with the demo's trainings, the SDK, and the data files of scikit-learn.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
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
MIRROR = "http://deb.debian.org/debian"

_USELESS = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)
_CONTENT = "steepest.content"  # a label of the demo's image: the digest of what was put into it
_SITE = "/usr/lib/python3/dist-packages"


def default_folder() -> Path:
    """Where ``make images`` keeps its tarball: ``$STEEPEST_DOCKER_HOME`` or ``.docker`` in the current folder."""
    return Path(os.environ.get("STEEPEST_DOCKER_HOME", ".docker"))


def missing(folder: Path) -> str:
    """Why there are no images to be imported; empty where there are."""
    return "" if _tarball(folder).exists() else f"there is no {_tarball(folder)}"


def make(folder: Path) -> Path:
    """Make the tarball of the base image unless it is there (80 s, 70 MB of packages); give it.

    Raises:
        InputError: ``debootstrap`` is missing or failed.
    """
    path = _tarball(folder)
    if path.exists():
        return path
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise InputError("there is no debootstrap on this machine", code="no-debootstrap", hint="make engine")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.absolute(), prefix="root-") as name:
        root = Path(name) / "root"
        order = [program, "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(root), MIRROR]
        done = subprocess.run(order, stdout=sys.stderr, check=False)
        if done.returncode:
            raise InputError(f"debootstrap ended with {done.returncode}", hint="read what it says; it needs root")
        for useless in _USELESS:
            shutil.rmtree(root / useless, ignore_errors=True)
        aside = Path(name) / path.name
        subprocess.run(["tar", "--numeric-owner", "-C", str(root), "-cf", str(aside), "."], check=True)
        aside.replace(path)
    return path


def provide(client: docker.APIClient, folder: Path, *, demo: bool = False) -> None:
    """Give an engine the images that it does not have yet (3 s).

    Args:
        client: Of the engine.
        folder: Where the tarball is.
        demo: The demo's image too, as it is now.

    Raises:
        InputError: There is no tarball.
    """
    if why := missing(folder):
        raise InputError(why, code="no-images", hint="make images")
    if _labels(client, BASE) is None:
        client.import_image_from_file(
            str(_tarball(folder)), repository=BASE, tag="latest", changes=['CMD ["python3"]', "ENV PYTHONUNBUFFERED=1"]
        )
    if demo:
        _provide_demo(client)


def _provide_demo(client: docker.APIClient) -> None:
    content = _demo_content()
    digest = hashlib.sha256(content).hexdigest()
    if (_labels(client, DEMO) or {}).get(_CONTENT) == digest:
        return
    made = client.create_container(BASE, "true")["Id"]
    try:
        client.put_archive(made, "/", content)
        client.commit(made, repository=DEMO, tag="latest", changes=[f"LABEL {_CONTENT}={digest}"])
    finally:
        client.remove_container(made, force=True)


def _demo_content() -> bytes:
    """The trainings, the SDK and the data, as a tar file that is the same for the same content."""
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
    """Where each file goes below the packages, and where it is here."""
    library = _package("steepest")
    yield "steepest/__init__.py", library / "__init__.py"
    for folder, place, patterns in (
        (library / "demo_jobs", "steepest/demo_jobs", ("*.py",)),
        (_package("steepest_sdk"), "steepest_sdk", ("**/*.py",)),
        (_package("sklearn") / "datasets", "sklearn/datasets", ("data/d*.gz", "descr/*.rst")),
    ):
        for pattern in patterns:
            for file in folder.glob(pattern):
                yield f"{place}/{file.relative_to(folder).as_posix()}", file


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"the demo's image needs {name}", hint="install steepest[demo], or run `make setup`")
    return Path(next(iter(found.submodule_search_locations)))


def _labels(client: docker.APIClient, image: str) -> dict[str, str] | None:
    """The labels of an image; None where the engine does not have it."""
    try:
        return client.inspect_image(image)["Config"]["Labels"] or {}
    except ImageNotFound:
        return None


def _tarball(folder: Path) -> Path:
    return folder / f"{BASE}-{RELEASE}.tar"


def main() -> None:
    """Make the tarball, and import both images where an engine answers."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    try:
        print(f"{BASE}: {make(folder)}")  # noqa: T201 - the answer
        with contextlib.closing(docker.APIClient(**kwargs_from_env(), version="auto")) as client:
            provide(client, folder, demo=True)
            print(f"{BASE} and {DEMO} are in the engine at {client.base_url}")  # noqa: T201 - the answer
    except InputError as error:
        sys.exit(f"{error}\n{error.hint}")
    except DockerException as error:
        print(f"no engine has them yet: {error}")  # noqa: T201 - likewise; engines of the tests' own import the tarball


if __name__ == "__main__":
    main()
