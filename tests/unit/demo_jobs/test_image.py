"""The image of the demo's trainings has all of their modules."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from steepest_lab import jobs as demo_jobs

pytest.importorskip("docker", reason="the client of Docker is an extra: pip install 'steepest[docker]'")


def test_every_module_of_the_trainings_is_in_the_image() -> None:
    """Those of gangs are in a package of their own."""
    from steepest_lab.docker_engines.images import demo_content  # noqa: PLC0415 - its client is an extra

    folder = Path(demo_jobs.__path__[0])
    with tarfile.open(fileobj=io.BytesIO(demo_content())) as archive:
        names = archive.getnames()
    modules = {f"steepest_lab/jobs/{file.relative_to(folder).as_posix()}" for file in folder.rglob("*.py")}

    assert {name for name in modules if "/gangs/" in name}
    assert modules <= {name[name.index("steepest_lab/") :] for name in names if "/steepest_lab/" in name}
