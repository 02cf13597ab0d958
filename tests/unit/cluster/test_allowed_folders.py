"""Whatever path a submitter names, and whatever links jobs make, only folders that the operator named are used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness import folders

from steepest.cluster.allowed_folders import Allowed
from steepest.cluster.docker.mounts import NOBODY, mounts_of
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.errors import InputError, RefusedError

tmp_path = folders.tmp_path
NAMES = ("a", "b", "host", "..", ".state")
PARTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with a job's folder, in which links lead to and fro, another name for it, and a folder of the host."""
    root = tmp_path_factory.mktemp("machine").resolve()
    for folder in ("a", "a/a", "a/a/a", "host", "host/a"):
        (root / folder).mkdir()
    links = {"b": "a", "a/b": f"{root}/host", "a/a/b": "..", "a/a/a/b": f"{root}", "a/host": f"{root}/a/a"}
    for link, target in links.items():
        (root / link).symlink_to(target)
    return root


@given(parts=PARTS)
def test_only_what_the_operator_named_is_mounted(machine: Path, parts: Sequence[str]) -> None:
    """The sources are the job's two folders and an allowed one; the working folder is a path in the container alone."""
    state = AdapterFolder(machine / "a" / ".state" / "cluster")
    allowed = Allowed.named([machine / "b"], machine / "a" / ".state")
    folder = state.incarnation(ReplicaId("mnist"), 1)
    spec = ReplicaSpec(command=("true",), working_dir=str(machine.joinpath(*parts)))
    try:
        mounts = mounts_of(state, folder, spec, allowed)
    except RefusedError:
        return

    own = {str(folder.control), str(state.checkpoints("mnist"))}
    sources = {each["Source"] for each in mounts.all if each["Type"] == "bind"}
    assert own <= sources <= {*own, str(machine / "a")}
    assert (len(sources) == 3) == any(each["Type"] == "tmpfs" for each in mounts.all)
    assert mounts.uid != 0
    assert mounts.gid != 0


@given(parts=PARTS)
def test_a_path_in_an_allowed_folder_is_found_there(machine: Path, parts: Sequence[str]) -> None:
    """Whatever is found is an allowed folder, and a path in it that ``steepest.untrusted`` can go without leaving it."""
    found = Allowed.named([machine / "a"], machine / "state").find(str(machine.joinpath(*parts)))
    if found is None:
        return

    assert found.folder == found.place.resolve() == machine / "a"
    assert found.path.is_relative_to(found.folder)
    assert ".." not in found.path.parts


def test_the_owner_of_the_allowed_folder_is_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is below it may belong to anybody: to root by an accident, or to another user by a link."""
    work = tmp_path / "work" / "below"
    work.mkdir(parents=True)
    allowed = Allowed.named([tmp_path / "work"], tmp_path / "state")
    state = AdapterFolder(tmp_path / "state")
    spec = ReplicaSpec(command=("true",), working_dir=str(work))
    owners = {tmp_path / "work": (1234, 2345), work: (77, 77)}
    of = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: owned(of(self, **how), owners.get(self, (0, 0))))
    users = []
    for running_as in (0, 501):
        monkeypatch.setattr(os, "getuid", lambda running_as=running_as: running_as)
        monkeypatch.setattr(os, "getgid", lambda running_as=running_as: running_as)
        users.append(mounts_of(state, state.incarnation(ReplicaId("j"), 1), spec, allowed).user)
    owners.clear()
    monkeypatch.setattr(os, "getuid", lambda: 0)
    users.append(mounts_of(state, state.incarnation(ReplicaId("j"), 1), spec, allowed).user)

    assert users == ["1234:2345", "501:501", f"{NOBODY}:{NOBODY}"]


def owned(status: os.stat_result, owner: tuple[int, int]) -> os.stat_result:
    """A status with another owner."""
    values = list(status)
    values[4], values[5] = owner
    return os.stat_result(values)


def test_a_folder_within_another_is_not_mounted_by_itself(tmp_path: Path) -> None:
    """Jobs could replace it by a link: it is a part of the outer one, whatever name it was given by."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    named = [tmp_path / "a" / "b", tmp_path / "link", tmp_path / "a", tmp_path / "a" / ".." / "a"]

    assert Allowed.named(named, tmp_path / "state").folders == (tmp_path / "a",)


def test_a_state_folder_that_jobs_could_replace_is_refused(tmp_path: Path) -> None:
    """It is elsewhere, or directly in their folder, where each container has something mounted over it."""
    work, other = tmp_path / "work", tmp_path / "other"
    for folder in (work / "deep", other):
        folder.mkdir(parents=True)
    (work / "link").symlink_to(other)
    (tmp_path / "way").symlink_to(work / "deep")
    for good in (other, work / ".steepest", tmp_path / "state"):
        assert Allowed.named([work], good).folders == (work,)
    for bad in (
        work / "deep" / "state",
        work / "link",
        work / "link" / "state",
        tmp_path / "way" / "state",
        work,
        tmp_path,
    ):
        with pytest.raises(InputError, match=r"state folder|own folder"):
            Allowed.named([work], bad)
