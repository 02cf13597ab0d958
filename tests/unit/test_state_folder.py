"""A state folder is one user's, and `down` signals no process but the system that runs on it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from steepest.app.settings.tree import ClusterSettings, Settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder, began
from steepest.cli.commands.up import let_jobs_have, prepare
from steepest.cli.system.shutdown import stop_system
from steepest.errors import InputError, RecordingError, UncertainError
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog


@pytest.fixture
def careless() -> Iterator[None]:
    """A user whose new files everybody may write."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    """An installation."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
    return folder


@pytest.mark.usefixtures("careless")
def test_no_other_user_reads_or_writes_a_new_folder(tmp_path: Path) -> None:
    """Under any umask, the folder and the files with content in it are closed to other users."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
    folder.remember_kafka(KafkaPlace("h:1"))
    FileLog(folder.log, folder.read().layout.partitions())
    with folder.sole():
        files = [path for path in folder.root.rglob("*") if path.is_file()]

    assert folder.root.stat().st_mode & 0o777 == 0o700
    assert {"up.lock", "steepest.json", "kafka.json", "recording.json"} < {path.name for path in files}
    assert [path for path in files if path.stat().st_mode & 0o077] == []


def test_a_folder_that_was_open_is_closed_and_it_is_said(
    folder: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once: others may have read it until then."""
    folder.root.chmod(0o755)
    for _ in range(2):
        prepare(Settings(state_dir=str(folder.root)))

    assert folder.root.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == f"{folder.root} was open to other users; it is yours alone now\n"


def test_down_signals_nobody_but_who_took_the_lock(folder: StateFolder) -> None:
    """The lock may be held by somebody else while the number in it is another process's by now."""
    lock = folder.root / "up.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for text in (f"{os.getpid()} 1", str(os.getpid()), f"{2**22 + 1} 7", "", "nonsense"):
            lock.write_text(text)
            with pytest.raises(UncertainError, match="is not who wrote that") as refused:
                stop_system(folder)
            assert "fuser" in refused.value.hint
    assert stop_system(folder) is None


def test_who_runs_is_known_by_its_start(folder: StateFolder) -> None:
    """A system names itself and when it began, and another one is refused meanwhile."""
    with folder.sole():
        assert folder.system() == folder.running() == os.getpid()
        assert began(os.getpid()) != ""
        with pytest.raises(InputError, match=f"process {os.getpid()}"), folder.sole():
            pass
    assert folder.system() is None
    assert began(2**22 + 1) == ""


def test_a_folder_that_cannot_be_written_is_told_as_one(folder: StateFolder) -> None:
    """A disk that was mounted to be read only is no traceback."""
    (folder.root / "up.lock").mkdir()

    with pytest.raises(RecordingError, match="cannot write the state folder"), folder.sole():
        pass


def test_containers_get_the_folders_that_up_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those named last; where none ever was, the one in which it ran first. Emulated nodes have no such list."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="unix:///nowhere"),)))
    monkeypatch.chdir(tmp_path)
    let_jobs_have(folder, ClusterSettings())
    first = folder.read().folders
    monkeypatch.chdir("/")
    let_jobs_have(folder, ClusterSettings())
    second = folder.read().folders
    let_jobs_have(folder, ClusterSettings(folders=("/data", str(tmp_path))))

    assert first == second == (str(tmp_path),)
    assert folder.read().folders == ("/data", str(tmp_path))
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
    rights = (ClusterSettings(host_network=True), ClusterSettings(system_checkpoints=True))
    for asked in (ClusterSettings(folders=(str(tmp_path),)), *rights):
        with pytest.raises(InputError, match="for Docker engines"):
            let_jobs_have(folder, asked)


def test_kinds_of_users_objects_stay_until_others_are_named(tmp_path: Path) -> None:
    """A folder without them is as earlier releases can read it; only on Kubernetes are there such objects."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="kubernetes://n/c:/v"),)))
    kept = []
    for asked in ((), ("JobSet",), ()):
        kept.append('"kinds"' in (folder.root / "steepest.json").read_text())
        let_jobs_have(folder, ClusterSettings(kinds=asked))
        kept.append(folder.read().kinds == ("JobSet",))

    assert kept == [False, False, False, True, True, True]
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="unix:///nowhere"),)))
    with pytest.raises(InputError, match="for Kubernetes"):
        let_jobs_have(folder, ClusterSettings(kinds=("JobSet",)))


def test_further_namespaces_stay_until_others_are_named(tmp_path: Path) -> None:
    """Each is named once, and the claim's own is not named."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="kubernetes://n/c:/v"),)))
    let_jobs_have(folder, ClusterSettings())
    assert '"namespaces"' not in (folder.root / "steepest.json").read_text()
    let_jobs_have(folder, ClusterSettings(namespaces=("team-a", "team-b")))
    let_jobs_have(folder, ClusterSettings(kinds=("JobSet",)))

    assert folder.read().namespaces == ("team-a", "team-b")
    for named in (("team-a", "team-a"), ("n",)):
        with pytest.raises(InputError, match="named twice"):
            let_jobs_have(folder, ClusterSettings(namespaces=named))
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="unix:///nowhere"),)))
    with pytest.raises(InputError, match="--namespace is for Kubernetes"):
        let_jobs_have(folder, ClusterSettings(namespaces=("team-a",)))


@pytest.mark.parametrize("right", ["host_network", "system_checkpoints"])
def test_containers_have_a_right_once_they_are_let(tmp_path: Path, right: str) -> None:
    """The folder keeps what `up` said last; what is not said stays."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000), engine="unix:///nowhere"),)))
    kept = []
    for asked in (None, True, None, False):
        let_jobs_have(folder, msgspec.convert({right: asked}, ClusterSettings))
        kept.append(getattr(folder.read(), right))

    assert kept == [False, True, True, False]


def test_a_folder_of_demos_names_the_newest(tmp_path: Path) -> None:
    """The error for a folder of demos names the newest demo's folder."""
    for number, name in enumerate(("demo-1", "demo-2")):
        folder = StateFolder(tmp_path / name)
        folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
        os.utime(folder.root, (number, number))

    with pytest.raises(InputError) as refused:
        StateFolder(tmp_path).read()
    assert refused.value.hint.endswith(f"--state {tmp_path / 'demo-2'}")
