"""What an experiment on a real engine needs beside the library: the client, the daemon, root, images."""

from __future__ import annotations

import importlib.util
import os
import shutil

from steepest.demo import stage
from steepest.errors import InputError

WHAT = "a reproduction with real trainings"


def refuse_without_engine() -> None:
    """Say before anything is started that no engine can be, or that the trainings could not run on it.

    Raises:
        InputError: Something is missing; with the command that gets it.
    """
    if importlib.util.find_spec("docker") is None:
        raise InputError(f"{WHAT} needs the client of Docker engines", hint="install steepest[docker]")
    stage.refuse_without_libraries()
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        raise InputError(f"{WHAT} needs a Docker engine (dockerd)", code="no-engine", hint="get it with `make engine`")
    if os.geteuid() != 0:
        raise InputError(f"{WHAT} starts a Docker engine of its own", code="not-root", hint="run it as root")
    from steepest.docker_lab import images  # noqa: PLC0415 - the client is an extra

    if why := images.missing(images.default_folder()):
        raise InputError(f"{WHAT} needs an image: {why}", code="no-images", hint="make it with `make images`")
