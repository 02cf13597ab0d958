"""Which checkpoints are taken for good: by the library's own verifier, of what the SDK writes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest.cluster.folders.checkpoint_verification import Volume
from steepest.cluster.time_slicer import TimeSlicer
from steepest.errors import InputError
from steepest_sdk.checkpoints import CheckpointFolder

Damage = Callable[[Path], object]


def save(folder: Path, step: int, *, incarnation: int = 1, job: str = "mnist") -> str:
    """Save a checkpoint with a file and a folder in it, as the SDK does; give its name."""

    def write(into: Path) -> None:
        (into / "model.bin").write_bytes(os.urandom(100))
        (into / "optimizer").mkdir()
        (into / "optimizer" / "state ü.bin").write_bytes(b"abc")

    return CheckpointFolder(folder, job, incarnation).save(step, None, write).folder.name


def edit_manifest(**fields: object) -> Damage:
    """Change fields of a manifest."""

    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **fields}))

    return edit


def replaced(path: Path, put: Damage) -> None:
    """Something else in the place of a file or folder."""
    path.rename(path.parent / f"was-{path.name}")
    put(path)


def test_what_the_sdk_saves_is_good(tmp_path: Path) -> None:
    """The library agrees with the SDK on names, manifests and digests, folders and odd names included."""
    name = save(tmp_path, 120)
    found = Volume(tmp_path, "mnist").verify(name)
    manifest = json.loads((tmp_path / name / "manifest.json").read_text())

    assert (found.name, found.step, found.digest) == (name, 120, manifest["digest"])


DAMAGES: dict[str, Damage] = {
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "a torn manifest": lambda folder: os.truncate(folder / "manifest.json", 40),
    "a manifest that is no UTF-8": lambda folder: (folder / "manifest.json").write_bytes(b'{"job": "\xff"}'),
    "a file of another size": lambda folder: os.truncate(folder / "model.bin", 99),
    "a file of another content": lambda folder: (folder / "model.bin").write_bytes(bytes(100)),
    "a missing file": lambda folder: (folder / "model.bin").unlink(),
    "a file too many": lambda folder: (folder / "extra").touch(),
    "a link": lambda folder: (folder / "link").symlink_to("model.bin"),
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "another job": edit_manifest(job="resnet"),
    "another step": edit_manifest(step=7),
    "another incarnation": edit_manifest(incarnation=7),
    "another digest": edit_manifest(digest="sha256:00"),
    "a manifest that is a pipe": lambda folder: replaced(folder / "manifest.json", os.mkfifo),
    "a manifest that is a link": lambda folder: replaced(
        folder / "manifest.json", lambda path: path.symlink_to("/dev/zero")
    ),
    "a manifest that is too deep": lambda folder: (folder / "manifest.json").write_bytes(b'{"a":' * 30_000),
    "a file without end": lambda folder: os.truncate(folder / "model.bin", 1 << 43),
    "folders without end": lambda folder: folder.joinpath(*["d"] * 100).mkdir(parents=True),
    "a link for a folder": lambda folder: replaced(folder, lambda path: path.symlink_to("/etc")),
    "a negative step": edit_manifest(step=-1),
    "files that are a list": edit_manifest(files=[]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: Damage) -> None:
    """A checkpoint with this damage is refused, and the newest good one before it is offered instead."""
    good, bad = save(tmp_path, 10), save(tmp_path, 20)
    damage(tmp_path / bad)
    volume = Volume(tmp_path, "mnist")

    with pytest.raises(InputError) as caught:
        volume.verify(bad)
    assert caught.value.code == "checkpoint-invalid"
    assert str(tmp_path / bad) in str(caught.value)
    found = volume.refresh()
    assert found is not None
    assert found.name == good


@pytest.mark.parametrize("name", ["", ".", "..", "../other/step-00000001-i0001", "step-1-i1", "step-00000001-i0001/"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """What a job answers with cannot lead out of its volume."""
    with pytest.raises(InputError, match="not a valid checkpoint name"):
        Volume(tmp_path, "mnist").verify(name)


def test_a_later_incarnation_is_newer_whatever_its_step(tmp_path: Path) -> None:
    """The newest checkpoint is that of the highest incarnation: it may have begun further back."""
    save(tmp_path, 100, incarnation=1)
    newest = save(tmp_path, 50, incarnation=2)
    found = Volume(tmp_path, "mnist").refresh()

    assert found is not None
    assert found.name == newest


def test_a_change_after_verification_is_seen(tmp_path: Path) -> None:
    """A checkpoint that was good and is changed later is not offered any more."""
    name = save(tmp_path, 10)
    volume = Volume(tmp_path, "mnist")
    assert volume.refresh() is not None
    (tmp_path / name / "model.bin").write_bytes(bytes(100))

    assert volume.refresh() is None
    assert volume.newest is None


def test_a_known_checkpoint_is_not_read_again(tmp_path: Path) -> None:
    """Looking again does not open the files of a checkpoint that was verified and did not change."""
    name = save(tmp_path, 10)
    volume = Volume(tmp_path, "mnist")
    first = volume.refresh()
    before = os.stat(tmp_path / name / "model.bin")  # noqa: PTH116 - with the access time that is restored below
    os.utime(tmp_path / name / "model.bin", ns=(1, before.st_mtime_ns))

    assert volume.refresh() == first
    assert (tmp_path / name / "model.bin").stat().st_atime_ns == 1


def test_what_a_job_answered_with_is_read_once(tmp_path: Path) -> None:
    """A move verifies it, looks at the volume after its stop, and verifies it before its start: each within a time limit."""
    name = save(tmp_path, 10)
    volume = Volume(tmp_path, "mnist")
    first = volume.verify(name)
    before = os.stat(tmp_path / name / "model.bin")  # noqa: PTH116 - with the access time that is restored below
    os.utime(tmp_path / name / "model.bin", ns=(1, before.st_mtime_ns))

    assert volume.refresh() == volume.verify(name) == first
    assert (tmp_path / name / "model.bin").stat().st_atime_ns == 1
    (tmp_path / name / "model.bin").write_bytes(bytes(100))
    with pytest.raises(InputError, match="does not match"):
        volume.verify(name)


def test_of_many_bad_checkpoints_the_newest_are_looked_at(tmp_path: Path) -> None:
    """A job that makes bad checkpoints without end costs as much as one that makes a few."""
    for step in range(500):
        (tmp_path / f"step-{step:08d}-i0001").mkdir()
    volume = Volume(tmp_path, "mnist")

    assert volume.refresh() is None
    assert len(volume._known) == 20


async def test_what_is_endless_delays_nothing_that_is_short(tmp_path: Path) -> None:
    """Checkpoints of many jobs are read side by side, and reading can be given up at any time."""
    for job in ("huge", "small"):
        save(tmp_path / job, 10, job=job)
    huge = tmp_path / "huge" / "step-00000010-i0001"
    os.truncate(huge / "model.bin", 1 << 43)
    manifest = json.loads((huge / "manifest.json").read_text())
    manifest["files"]["model.bin"]["bytes"] = 1 << 43
    manifest["digest"] = digest_of(manifest["files"])
    (huge / "manifest.json").write_text(json.dumps(manifest))
    slicer = TimeSlicer()
    endless = [asyncio.create_task(slicer.run(Volume(tmp_path / "huge", "huge").refreshing())) for _ in range(10)]

    found = await slicer.run(Volume(tmp_path / "small", "small").refreshing())

    assert found is not None
    assert not any(task.done() for task in endless)
    for task in endless:
        task.cancel()
    await asyncio.gather(*endless, return_exceptions=True)
    slicer.close()


def digest_of(files: dict[str, dict[str, object]]) -> str:
    """As ``docs/control-folder.md`` has it."""
    lines = "".join(f"{name}\t{files[name]['bytes']}\t{files[name]['sha256']}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def test_a_volume_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    """No folder, or a file in its place: no checkpoint, and no failure."""
    (tmp_path / "file").touch()

    assert Volume(tmp_path / "none", "mnist").refresh() is None
    assert Volume(tmp_path / "file", "mnist").refresh() is None
