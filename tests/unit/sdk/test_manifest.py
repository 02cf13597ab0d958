"""What makes a folder a good checkpoint: any difference between manifest, files and name is refused."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest_sdk.manifest import CheckpointName, CheckpointRefused, FileDigest, Manifest, digest_of, survey, verify

file_names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
file_digests = st.builds(FileDigest, st.integers(0, 2**40), st.text("0123456789abcdef", min_size=64, max_size=64))
files = st.dictionaries(file_names, file_digests, max_size=6)
plain_names = st.text("abcxyz0189._-", min_size=1, max_size=12).filter(lambda name: name not in {".", ".."})
contents = st.dictionaries(plain_names, st.binary(max_size=60), min_size=1, max_size=4)


def seal(root: Path, written: Mapping[str, bytes], job: str = "walk", step: int = 7, incarnation: int = 2) -> Path:
    """A good checkpoint in ``root``, written from the contract's text alone."""
    folder = root / f"step-{step:08d}-i{incarnation:04d}"
    entries = {}
    for name, content in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        entries[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    lines = b"".join(
        f"{name}\t{entry['bytes']}\t{entry['sha256']}\n".encode()
        for name, entry in sorted(entries.items(), key=lambda item: item[0].encode())
    )
    digest = "sha256:" + hashlib.sha256(lines).hexdigest()
    manifest = {"job": job, "step": step, "incarnation": incarnation, "digest": digest, "files": entries, "new": 1}
    folder.joinpath("manifest.json").write_text(json.dumps(manifest))
    return folder


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_name_reads_back(step: int, incarnation: int) -> None:
    """A name's text is read back as that name, however large its numbers are."""
    name = CheckpointName(step=step, incarnation=incarnation)
    assert CheckpointName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text",
    ["", "step-1-i2", "step-000000120-i0002", "step-00000120-i0002\n", "../step-00000120-i0002", "step-٠٠٠٠٠٠٠١-i0001"],
)
def test_only_the_exact_form_is_a_name(text: str) -> None:
    """Short, padded, decorated or foreign digits are no name, so that one checkpoint has one name."""
    assert CheckpointName.parse(text) is None


def test_later_incarnation_is_newer_whatever_its_step() -> None:
    """A late checkpoint of a replaced process does not count as newer than its successor's."""
    older, newer = CheckpointName(step=499, incarnation=2), CheckpointName(step=500, incarnation=2)
    assert CheckpointName(step=10, incarnation=3) > newer > older


@given(files)
def test_digest_is_that_of_the_lines_in_byte_order(entries: dict[str, FileDigest]) -> None:
    """The digest is the SHA-256 of the files' lines in the order of their names' UTF-8 bytes."""
    lines = [f"{name}\t{entry.bytes}\t{entry.sha256}\n".encode() for name, entry in entries.items()]
    ordered = b"".join(line for _, line in sorted(zip([name.encode() for name in entries], lines, strict=True)))
    assert digest_of(entries) == "sha256:" + hashlib.sha256(ordered).hexdigest()


@given(files, files)
def test_digest_tells_file_sets_apart(one: dict[str, FileDigest], other: dict[str, FileDigest]) -> None:
    """Two sets of files have the same digest only if they are the same set."""
    assert (digest_of(one) == digest_of(other)) == (one == other)


@given(st.text(max_size=20), st.integers(0, 10**9), st.integers(1, 99), files, st.none() | st.integers(0, 50))
def test_manifest_reads_back(
    job: str, step: int, incarnation: int, entries: dict[str, FileDigest], epochs: int | None
) -> None:
    """A manifest's bytes are read back as that manifest."""
    manifest = Manifest(job, step, incarnation, digest_of(entries), entries, epochs)
    assert Manifest.decode(manifest.encode()) == manifest


@given(
    st.binary(max_size=80)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_anything_else_is_refused_as_a_manifest(content: bytes) -> None:
    """Bytes that are no manifest are refused, and never raise anything else."""
    with pytest.raises(CheckpointRefused):
        Manifest.decode(content)


@pytest.mark.parametrize(
    "change",
    [{"step": "7"}, {"step": -1}, {"step": True}, {"files": []}, {"files": {"a": 1}}, {"digest": None}, {"epochs": -1}],
)
def test_manifest_with_a_wrong_field_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """A field of the wrong type or sign is refused."""
    fields = json.loads((seal(tmp_path, {"a": b"1"}) / "manifest.json").read_text())
    with pytest.raises(CheckpointRefused, match="cannot be read"):
        Manifest.decode(json.dumps(fields | change).encode())


@given(contents)
def test_checkpoint_made_by_the_contract_is_good(written: dict[str, bytes]) -> None:
    """A folder that follows the contract is accepted, unknown fields in its manifest and all."""
    with tempfile.TemporaryDirectory() as root:
        folder = seal(Path(root), written)
        manifest = verify(folder, "walk")
        assert (manifest.step, manifest.incarnation, manifest.epochs) == (7, 2, None)
        assert manifest.files == survey(folder)


@given(contents, st.data())
def test_any_change_to_any_file_is_refused(written: dict[str, bytes], data: st.DataObject) -> None:
    """A file changed, cut, removed or added makes the checkpoint refused."""
    with tempfile.TemporaryDirectory() as root:
        folder = seal(Path(root), written)
        name = data.draw(st.sampled_from(sorted(written)))
        content = data.draw(st.none() | st.binary(max_size=60).filter(lambda other: other != written[name]))
        if content is None:
            folder.joinpath(name).unlink()
        else:
            folder.joinpath(name).write_bytes(content)
        with pytest.raises(CheckpointRefused, match="the file "):
            verify(folder, "walk")
        folder.joinpath(name).write_bytes(written[name])
        verify(folder, "walk")
        folder.joinpath("one-more").write_bytes(b"")
        with pytest.raises(CheckpointRefused, match="is not in manifest"):
            verify(folder, "walk")


def test_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    """A checkpoint of another job is refused, and the text names both jobs."""
    with pytest.raises(CheckpointRefused, match="'other', not 'walk'"):
        verify(seal(tmp_path, {"a": b"1"}, job="other"), "walk")


def test_renamed_checkpoint_is_refused(tmp_path: Path) -> None:
    """An old checkpoint under a newer one's name is refused: its manifest knows better."""
    folder = seal(tmp_path, {"a": b"1"}).rename(tmp_path / "step-00000009-i0002")
    with pytest.raises(CheckpointRefused, match="says that it is step-00000007-i0002"):
        verify(folder, "walk")


def test_manifest_with_another_digest_is_refused(tmp_path: Path) -> None:
    """A digest that is not that of the files is refused even if each file agrees."""
    path = seal(tmp_path, {"a": b"1"}) / "manifest.json"
    path.write_text(path.read_text().replace("sha256:", "sha256:0"))
    with pytest.raises(CheckpointRefused, match="digest"):
        verify(path.parent, "walk")


def test_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    """A torn checkpoint, whose manifest is missing, is refused."""
    folder = seal(tmp_path, {"a": b"1"})
    folder.joinpath("manifest.json").unlink()
    with pytest.raises(CheckpointRefused, match="manifest"):
        verify(folder, "walk")


def test_link_is_refused(tmp_path: Path) -> None:
    """A link in a checkpoint is refused even if what it leads to is right today."""
    folder = seal(tmp_path, {"a": b"1"})
    folder.joinpath("a").rename(tmp_path / "elsewhere")
    folder.joinpath("a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointRefused, match="'a' is neither a file nor a folder"):
        verify(folder, "walk")


def test_checkpoint_that_is_itself_a_link_is_refused(tmp_path: Path) -> None:
    """Files outside the checkpoint folder may belong to another user."""
    folder = seal(tmp_path / "elsewhere", {"a": b"1"})
    tmp_path.joinpath(folder.name).symlink_to(folder)
    with pytest.raises(CheckpointRefused, match="it is a link"):
        verify(tmp_path / folder.name, "walk")


def test_name_that_would_forge_a_digest_line_is_refused(tmp_path: Path) -> None:
    """A tab or newline in a file's name could make two sets of files share their lines."""
    tmp_path.joinpath("a\t1\n").touch()
    with pytest.raises(CheckpointRefused, match="control character"):
        survey(tmp_path)
