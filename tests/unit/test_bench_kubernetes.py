"""What the benchmark of scale counts and computes, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.audit_log import requests_by_kind
from benchmarks.kubernetes.run import MEASURING, Turn, result, spread


def audited(audit_id: str, user: str, verb: str, resource: str, subresource: str = "") -> bytes:
    """A line of the audit log."""
    about = {"resource": resource, "subresource": subresource, "name": "x", "apiVersion": "v1"}
    line = {"auditID": audit_id, "verb": verb, "user": {"username": user, "uid": user}, "objectRef": about}
    return json.dumps(line).encode() + b"\n"


def test_requests_are_counted_by_user_and_kind(tmp_path: Path) -> None:
    """A watch, which is in the log when it begins and when it ends, counts once; a line that is being written does not."""
    audit = tmp_path / "audit.log"
    watch = audited("1", "migrator", "watch", "pods")
    placed = [audited(str(number), "migrator", "patch", "pods") for number in (2, 3)]
    log = audited("4", "log-collector", "get", "pods", "log")
    audit.write_bytes(b"".join([watch, *placed, log, watch]) + placed[0][:-1])

    assert requests_by_kind(audit) == {
        ("migrator", "watch pods"): 1,
        ("migrator", "patch pods"): 2,
        ("log-collector", "get pods/log"): 1,
    }


def test_the_last_line_is_the_median_of_the_turns() -> None:
    """Of each contender; what measures use is no part of a placement, and memory is the most of any turn."""
    turns = [
        Turn(name="default", placed=100, seconds=1.0),
        Turn(
            name="steepest",
            placed=100,
            seconds=4.0,
            decided_ms=[10.0, 20.0, 30.0],
            requests={"migrator": {"patch pods": 300}, "log-collector": {MEASURING: 5_000, "get pods/log": 50}},
            rss_mib={"placer": 40, "etcd": 70},
        ),
        Turn(name="steepest", placed=100, seconds=2.0, rss_mib={"placer": 44}),
        Turn(name="steepest", placed=100, seconds=1.0, rss_mib={"placer": 41}),
    ]
    found = result(turns, 10, 100)

    assert (found["placements_s"], found["default_s"]) == (50.0, 100.0)
    assert found["decision_running_ms"]["p50"] == 20
    assert found["rss_mib"] == {"placer": 44}
    assert turns[1].per_placement == 3.5
    assert spread([]) == {"p50": None, "p99": None}


def test_a_folder_without_programs_says_what_is_missing(tmp_path: Path) -> None:
    """The first one that is not there."""
    assert control_plane.missing(tmp_path) == f"there is no etcd in {tmp_path}"
    for name in control_plane.PROGRAMS:
        (tmp_path / name).touch()
    assert control_plane.missing(tmp_path) == ""
