"""Checks the requirements of an experiment on a real engine: the client, the daemon, root, images."""

from __future__ import annotations

import importlib.util
import os
import shutil

from steepest.errors import InputError
from steepest_lab.demo import stage

WHAT = "a reproduction with real trainings"


def refuse_without_engine() -> None:
    """Check the requirements of the engine and of the trainings, before anything is started.

    Raises:
        InputError: A requirement is missing; the hint has the command that installs it.
    """
    if importlib.util.find_spec("docker") is None:
        raise InputError(f"{WHAT} needs the client of Docker engines", hint="install steepest[docker]")
    stage.refuse_without_libraries()
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        raise InputError(f"{WHAT} needs a Docker engine (dockerd)", code="no-engine", hint="get it with `make engine`")
    if os.geteuid() != 0:
        raise InputError(f"{WHAT} starts a private Docker engine", code="not-root", hint="run it as root")
    from steepest_lab.docker_engines import images  # noqa: PLC0415 - the client is an extra

    if why := images.missing(images.default_folder()):
        raise InputError(f"{WHAT} needs an image: {why}", code="no-images", hint="make it with `make images`")
