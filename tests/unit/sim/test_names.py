"""Names of traces on the log."""

from __future__ import annotations

from steepest_lab.sim.workloads.names import fit_names


def test_a_name_that_is_fit_stays() -> None:
    """Most traces' names are fit as they are."""
    assert fit_names(["openb-pod-0000", "a", "x.y_z-1", "9" * 63]) == ["openb-pod-0000", "a", "x.y_z-1", "9" * 63]


def test_any_other_is_written_in_small_letters_with_its_digest() -> None:
    """The digest is that of the name, so that it does not depend on the other jobs."""
    assert fit_names(["ResNet 50!"]) == ["resnet-50-b9990d5c"]
    assert fit_names(["other", "ResNet 50!"])[1] == fit_names(["ResNet 50!"])[0]


def test_names_that_look_alike_stay_apart() -> None:
    """Two jobs' names may differ only in case, punctuation, blanks or after the 63rd character."""
    names = ["Job", "job", "JOB", "jo b", "jo-b", "jo_b", "-job", "job-", "", " ", "任务", "作业", "x" * 70, "x" * 71]

    assert len({*fit_names(names)}) == len(names)


def test_a_name_that_another_is_made_to_gets_another_digest() -> None:
    """A job whose name equals another job's fitted name keeps it."""
    (made,) = fit_names(["A b"])

    for names in (["A b", made], [made, "A b"]):
        fitted = dict(zip(names, fit_names(names), strict=True))
        assert fitted[made] == made
        assert fitted["A b"].startswith("a-b-")
        assert fitted["A b"] != made
