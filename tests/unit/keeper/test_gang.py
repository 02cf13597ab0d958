"""How the keepers of a gang speak to each other, and wait for each other, without CRIU."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steepest.keeper import gang
from steepest.keeper.gang import Followers, Leader, Meeting
from steepest.keeper.processes import CannotBeSaved


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """The folders of three replicas, with longer names than a socket may have."""
    made = [tmp_path / ("long" * 30) / str(rank) for rank in range(3)]
    for each in made:
        each.mkdir(parents=True)
    return [str(each) for each in made]


@contextlib.contextmanager
def leaders(*folders: str) -> Iterator[list[Leader]]:
    """The leader as each of these replicas hears it; a keeper has its sockets until it ends."""
    made = [Leader(folder) for folder in folders]
    try:
        yield made
    finally:
        for leader in made:
            for each in (leader._server, *(leader._talk or ())):
                if each is not None:
                    each.close()
        for folder in folders:
            Path(folder, "keeper").unlink()


def follow(leader: Leader, answers: list[dict[str, object]]) -> list[object]:
    """Answer what is asked, until there is no answer left; what it was."""
    heard: list[object] = []
    while answers:
        if (word := leader.listen()) is not None:
            heard.append(word["do"])
            leader.answer(**answers.pop(0))
    return heard


def test_all_are_asked_and_all_answers_are_there(folders: list[str]) -> None:
    """Also an empty answer is one; the others work while the block does."""
    with leaders(*folders[1:]) as heard:
        threads = [threading.Thread(target=follow, args=(each, [{}, {"of": rank}])) for rank, each in enumerate(heard)]
        followers = Followers(folders[1:])
        for thread in threads:
            thread.start()
        with followers.asked("stop") as said:
            pass
        assert said == [{}, {}]
        with followers.asked("look") as said:
            assert said == []
        assert said == [{"of": 0}, {"of": 1}]
        for thread in threads:
            thread.join()
        followers.release()
        assert [each.listen() for each in heard] == [{"do": "continue"}] * 2


def test_a_refusal_of_one_is_one_of_all(folders: list[str]) -> None:
    """It names the replica. One that is not there is a passing reason."""
    with pytest.raises(CannotBeSaved, match="replica 1 has no keeper yet") as refused:
        ask(Followers(folders[1:]))
    assert refused.value.code == "gang"
    with pytest.raises(CannotBeSaved, match="replica 1 has no keeper yet"):
        ask(Followers([f"{folders[1]}/not-started"]))
    with leaders(folders[1]) as (leader,):
        followers = Followers(folders[1:2])
        answering = threading.Thread(target=follow, args=(leader, [{"refused": "device: process 300 has /dev/x open"}]))
        answering.start()
        with pytest.raises(CannotBeSaved, match="replica 1: process 300 has /dev/x open") as refused:
            ask(followers)
        answering.join()
        assert refused.value.code == "device"
        followers.release()


def ask(followers: Followers) -> list[dict[str, Any]]:
    """Let them stop, and give their answers."""
    with followers.asked("stop") as said:
        pass
    return said


def test_a_job_that_is_no_gang_asks_and_waits_for_nothing(tmp_path: Path) -> None:
    """Every call does nothing."""
    with Followers(()).asked("stop") as said:
        pass
    meeting = Meeting((), 0, "step")
    meeting.wait()
    why = CannotBeSaved("device", "a device")
    assert (said, Leader(None).heard, meeting.script(tmp_path), meeting.fail(why)) == ([], [], None, why)


def test_a_leader_that_ends_in_a_save_is_given_up_after_a_while(
    folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that stands still waits for its own stop, which finds it saved; without a save nothing is given up."""
    monkeypatch.setattr(gang, "_ORPHANED_S", 0.0)
    for stands in (False, True):
        with leaders(folders[1]) as (leader,):
            followers = Followers(folders[1:2])
            answering = threading.Thread(target=follow, args=(leader, [{}]))
            answering.start()
            ask(followers)
            answering.join()
            leader.stands = stands
            followers._talks.clear()
            assert leader.listen() is None
            assert (leader.is_gone, leader.has_image) == (stands, stands)


def test_no_replica_continues_before_all_are_restored(folders: list[str]) -> None:
    """The last one lets all continue."""
    waiting = [threading.Thread(target=Meeting(folders, rank, "step").wait) for rank in (0, 1)]
    for each in waiting:
        each.start()
    assert all(each.is_alive() for each in waiting)
    Meeting(folders, 2, "step").wait()
    for each in waiting:
        each.join()


def test_one_that_is_not_restored_is_the_reason_of_all(folders: list[str]) -> None:
    """Whichever fails later has the first one's reason, so all decide the same; other images are not concerned."""
    meetings = [Meeting(folders, rank, "step") for rank in range(3)]
    first = meetings[1].fail(CannotBeSaved("changed-file", "a library"))
    with pytest.raises(CannotBeSaved, match="another replica"):
        meetings[0].wait()
    later = meetings[2].fail(CannotBeSaved("damaged", "an image"))
    assert str(first) == str(later) == "changed-file: a library"
    assert later.code == "changed-file"
    older = Meeting(folders, 2, "older").fail(CannotBeSaved("damaged", "an image"))
    assert older.code == "damaged"


def test_criu_waits_where_no_connection_is_active_yet(folders: list[str], tmp_path: Path) -> None:
    """Its script waits at one stage alone: it ends well once all are there, and badly once one has failed."""

    def run(script: Path | None, stage: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(script)], env={**os.environ, "CRTOOLS_SCRIPT_ACTION": stage})

    scripts = []
    for rank in range(3):
        (tmp_path / str(rank)).mkdir()
        scripts.append(Meeting(folders, rank, "step").script(tmp_path / str(rank)))
    assert run(scripts[0], "pre-restore").wait(30) == 0
    assert not Path(folders[0], "step.there").exists()
    running = [run(each, "post-restore") for each in scripts]
    assert [each.wait(30) for each in running] == [0, 0, 0]
    for folder in folders:
        Path(folder, "step.there").unlink()
    early = run(scripts[0], "post-restore")
    Meeting(folders, 1, "step").fail(CannotBeSaved("damaged", "an image"))
    assert early.wait(30) == 1


def test_a_reason_waits_for_the_folder_of_replica_0(folders: list[str]) -> None:
    """Another replica may fail before that one is started."""
    Path(folders[0]).rmdir()
    failing = threading.Thread(target=Meeting(folders, 1, "step").fail, args=(CannotBeSaved("damaged", "an image"),))
    failing.start()
    Path(folders[0]).mkdir()
    failing.join(30)
    assert Path(folders[0], "step.failed").read_text() == "damaged: an image"
