"""Which folders are recordings."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest.errors import InputError, LogUnavailableError, RecordingError
from steepest.log.base import TopicPartition
from steepest.log.files.file_lock import locked_blocking
from steepest.log.files.file_log import FileLog
from steepest.log.files.recording import create_recording, open_recording

GOOD = {"format": "steepest-recording", "version": 1, "partitions": {"cluster": 1, "loss": 2}}


def test_a_new_recording_says_what_it_is(tmp_path: Path) -> None:
    """A new folder has a file for each partition, and recording.json with format, version, partitions and writer."""
    create_recording(tmp_path / "new", GOOD["partitions"])  # type: ignore[arg-type]
    written = json.loads((tmp_path / "new" / "recording.json").read_text())
    assert written.pop("created_by").startswith("steepest ")
    assert written == GOOD
    assert sorted(path.relative_to(tmp_path / "new").as_posix() for path in tmp_path.rglob("*.jsonl")) == [
        *("cluster/0.jsonl", "loss/0.jsonl", "loss/1.jsonl")
    ]


def test_making_a_recording_twice_is_opening_it(tmp_path: Path) -> None:
    """The second call leaves the recording and its records unchanged."""
    create_recording(tmp_path, {"cluster": 1})
    (tmp_path / "cluster/0.jsonl").write_text("kept")
    assert create_recording(tmp_path, {"cluster": 1}).counts == {"cluster": 1}
    assert (tmp_path / "cluster/0.jsonl").read_text() == "kept"


def test_two_who_make_one_at_once_agree(tmp_path: Path) -> None:
    """Who comes while another makes the recording waits for it, and then finds what that other one made."""
    create_recording(tmp_path, {"cluster": 1})
    (tmp_path / "recording.json").unlink()
    found: list[Exception] = []

    def late() -> None:
        try:
            create_recording(tmp_path, {"cluster": 2})
        except RecordingError as error:
            found.append(error)

    thread = threading.Thread(target=late)
    with locked_blocking(tmp_path / "recording.lock"):
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        (tmp_path / "recording.json").write_text(json.dumps(GOOD | {"partitions": {"cluster": 1}}))
    thread.join()
    assert "{'cluster': 1}, not {'cluster': 2}" in str(found[0])


def test_other_partitions_are_refused(tmp_path: Path) -> None:
    """The number of partitions never changes, because keys would be in other ones than before."""
    create_recording(tmp_path, {"loss": 2})
    with pytest.raises(RecordingError, match=r"\{'loss': 2\}, not \{'loss': 3\}") as caught:
        create_recording(tmp_path, {"loss": 3})
    assert caught.value.hint


@pytest.mark.parametrize("topic", ["", "..", "a/b", "a b", "ä", "x" * 250, "a\n"])
def test_a_topic_that_is_no_safe_name_is_refused(tmp_path: Path, topic: str) -> None:
    """A topic's name is a folder's name, so nothing that leads out of the recording is one; nothing is made then."""
    with pytest.raises(InputError, match="cannot be a topic"):
        create_recording(tmp_path / "new", {topic: 1})
    assert not (tmp_path / "new").exists()


def test_a_topic_has_at_least_one_partition(tmp_path: Path) -> None:
    """A topic without partitions could hold nothing."""
    with pytest.raises(InputError, match="0 partitions"):
        create_recording(tmp_path, {"loss": 0})


def test_a_place_where_no_folder_can_be_is_named(tmp_path: Path) -> None:
    """A file stands where the folder should be made: the error names the place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailableError, match="file/recording"):
        create_recording(tmp_path / "file" / "recording", {"loss": 1})


def _spoil(**changes: object) -> Callable[[Path], object]:
    return lambda folder: (folder / "recording.json").write_text(json.dumps(GOOD | changes))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "recording.json").unlink(), "it has no recording.json"),
        (lambda folder: (folder / "recording.json").write_bytes(b"\xff"), "is malformed"),
        (lambda folder: (folder / "recording.json").write_bytes(b"[" * 100_000), "is malformed"),
        (lambda folder: (folder / "recording.json").write_text("[]"), "is malformed"),
        (lambda folder: (folder / "recording.json").write_text("{}"), "its format is ''"),
        (_spoil(format="asciicast"), "its format is 'asciicast'"),
        (_spoil(version=2), "has format version 2; this program reads 1"),
        (_spoil(version=0), "has format version 0"),
        (_spoil(partitions=3), "is malformed"),
        (_spoil(partitions={"../out": 1}), "cannot be a topic"),
        (_spoil(partitions={"cluster": 0}), "recording.json: partitions: topic cluster cannot have 0 partitions"),
        (
            _spoil(partitions={"cluster": 10**12}),
            "recording.json: partitions: .* 1000000000000 partitions, more than 10000",
        ),
        (_spoil(partitions={"cluster": 10**400}), r"is malformed: .*\$\.partitions"),
        (_spoil(partitions={f"t{number}": 1 for number in range(10_001)}), "has 10001 partitions, more than 10000"),
        (_spoil(partitions={"x" * 10**6: 1}), "cannot be a topic"),
        (_spoil(created_by="x" * 2**22), "recording.json is larger than 4194304 bytes"),
        (lambda folder: (folder / "loss/1.jsonl").unlink(), r"loss/1.jsonl is missing"),
    ],
)
def test_a_folder_that_is_no_sound_recording_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    """The error names the file and what is wrong with it, and says what to do first."""
    create_recording(tmp_path, GOOD["partitions"])  # type: ignore[arg-type]
    spoil(tmp_path)
    with pytest.raises(RecordingError, match=said) as caught:
        open_recording(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["nowhere", "a-file"])
def test_what_is_no_folder_is_no_recording(tmp_path: Path, name: str) -> None:
    """A path that leads nowhere, or to a file, is named."""
    (tmp_path / "a-file").write_text("")
    with pytest.raises(RecordingError, match=f"{name} is not a recording"):
        open_recording(tmp_path / name)


def test_a_header_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """Reading a pipe would block without end."""
    create_recording(tmp_path, GOOD["partitions"])  # type: ignore[arg-type]
    (tmp_path / "recording.json").unlink()
    os.mkfifo(tmp_path / "recording.json")
    with pytest.raises(RecordingError, match=r"recording\.json"):
        open_recording(tmp_path)


@pytest.mark.parametrize("part", ["loss/0.jsonl", "loss"])
async def test_a_recording_leads_nowhere_else(tmp_path: Path, part: str) -> None:
    """A link in a recording that others have made would show another file's lines in messages about damage."""
    create_recording(tmp_path / "made", {"loss": 1})
    secret = tmp_path / "secret"
    (tmp_path / "made" / part).rename(secret)
    (tmp_path / "made" / part).symlink_to(secret)
    log = FileLog.open(tmp_path / "made", read_only=True)
    with pytest.raises(RecordingError, match=r"contains a link|not a regular file|Not a directory"):
        await log.end(TopicPartition("loss", 0))
    await log.close()
