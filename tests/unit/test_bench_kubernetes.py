"""What the benchmark of scale counts and computes, without a cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.kubernetes import control_plane, coscheduling, kueue
from benchmarks.kubernetes.audit_log import requests_by_kind
from benchmarks.kubernetes.bare_cluster import JOBS
from benchmarks.kubernetes.control_plane import QPS, SCHEDULER, ControlPlane, scheduler_settings
from benchmarks.kubernetes.figures import lines, result, table
from benchmarks.kubernetes.pod_times import PodTime, PodTimes
from benchmarks.kubernetes.run import chosen
from benchmarks.kubernetes.turn import MEASURING, Turn, spread


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
            cpu_s={"placer": 0.5, "etcd": 0.7, "(benchmark)": 9.0},
        ),
        Turn(name="steepest", placed=100, seconds=2.0, rss_mib={"placer": 44}),
        Turn(name="steepest", placed=100, seconds=1.0, rss_mib={"placer": 41}),
        Turn(name="kueue", placed=100, seconds=10.0, waited_ms=[5_000.0, 6_000.0, 8_000.0]),
    ]
    found = result(turns, 10, 100)

    assert (found["placements_s"], found["default_s"]) == (50.0, 100.0)
    assert found["decision_running_ms"]["p50"] == 20
    assert found["rss_mib"] == {"placer": 44}
    assert (found["kueue_s"], found["coscheduling_s"]) == (10.0, None)
    assert found["submission_bound_ms"]["kueue"]["p50"] == 6_000
    assert found["api_requests_per_placement"] == 0.0
    assert (turns[1].requests_each, turns[1].cpu_ms_each) == (3.5, 12.0)
    assert spread([]) == {"p50": None, "p99": None}


def test_a_folder_without_programs_says_what_is_missing(tmp_path: Path) -> None:
    """The first one that is not there."""
    assert control_plane.missing(tmp_path) == f"there is no etcd in {tmp_path}"
    for name in control_plane.PROGRAMS:
        (tmp_path / name).touch()
    assert control_plane.missing(tmp_path) == ""


def test_the_last_line_has_every_figure_where_steepest_was_left_out() -> None:
    """Those that were not measured are null."""
    found = result([Turn(name="kueue", placed=10, seconds=1.0)], 1, 10)

    assert (found["placements_s"], found["default_s"], found["kueue_s"]) == (None, None, 10.0)
    assert (found["api_requests_per_placement"], found["rss_mib"]) == (None, {})


def test_the_table_has_a_row_for_each_contender() -> None:
    """In the order of their turns, all rows of the same width."""
    turns = [Turn(name=name, placed=10, seconds=1.0) for name in ("default", "coscheduling", "default")]
    heading, *rows = table(turns)

    assert [re.split(r"  +", row.strip())[:4] for row in rows] == [
        ["default", "2", "20", "10.0"],
        ["coscheduling", "1", "10", "10.0"],
    ]
    assert {len(row) for row in rows} == {len(heading)}


def test_a_turn_says_what_its_contender_has_sent_and_used() -> None:
    """The kinds of requests by their number, and the processes by their processor time."""
    turn = Turn(
        name="kueue",
        placed=2,
        seconds=1.0,
        requests={"kueue": {"create workloads": 2, "patch jobs": 4}},
        rss_mib={"kueue": 100, "etcd": 50},
        cpu_s={"kueue": 1.0, "etcd": 2.0},
    )
    first, requests, *processes = lines(turn, 3)

    assert first.startswith("kueue: 2 of 3 bound in 1.0 s, 2.0 a second")
    assert requests == "  kueue: patch jobs 4, create workloads 2"
    assert [line.split()[0] for line in processes] == ["etcd", "kueue"]


def test_a_job_that_was_started_again_counts_once(tmp_path: Path) -> None:
    """By its last pod; and a line that is being written is read the next time."""
    path = tmp_path / "pods.jsonl"
    times = PodTimes(path)
    times.read()
    written = [
        json.dumps({"uid": uid, "what": "bound", "at_s": at_s, "job": job}).encode() + b"\n"
        for uid, at_s, job in (("1", 1.0, "a"), ("2", 2.0, "b"), ("3", 3.0, "a"))
    ]
    path.write_bytes(b"".join(written)[:-2])
    times.read()
    assert {job: each.uid for job, each in times.last["bound"].items()} == {"a": "1", "b": "2"}
    path.write_bytes(b"".join(written))
    times.read()

    assert times.last["bound"] == {"a": PodTime("3", "bound", 3.0, "a"), "b": PodTime("2", "bound", 2.0, "b")}


def test_what_is_not_built_is_left_out_with_the_command_that_builds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that Go's proxy does not serve is the reason too; who was not asked for is not mentioned."""
    assert [kind.name for kind in chosen(tmp_path, [])] == ["default", "steepest"]
    assert capsys.readouterr().out.splitlines() == [
        f"kueue is left out: there is no kueue in {tmp_path}; get it with: make kueue",
        f"coscheduling is left out: there is no coscheduling in {tmp_path}; get it with: make coscheduling",
    ]
    (tmp_path / "kueue.unserved").write_text("403")
    (tmp_path / "coscheduling").touch()
    assert [kind.name for kind in chosen(tmp_path, ["kueue", "coscheduling"])] == ["coscheduling"]
    assert capsys.readouterr().out == "kueue is left out: a module of kueue is not served: 403\n"


def test_all_clients_may_send_as_many_requests(tmp_path: Path) -> None:
    """Kueue and the coscheduling plugin's scheduler as many as the default scheduler."""
    limits = [
        scheduler_settings(tmp_path)["clientConnection"],
        coscheduling.settings(tmp_path)["clientConnection"],
        kueue.UnhinderedKueue().settings(tmp_path)["clientConnection"],
    ]
    assert [(each["qps"], each["burst"]) for each in limits] == [(QPS, 2 * QPS)] * 3


def test_the_queue_of_kueue_is_as_large_as_the_cluster() -> None:
    """Its quota delays no Job that the nodes have room for; each Job is in it."""
    _, of_all, local = kueue.queue(10)
    (group,) = of_all["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]

    assert {each["name"]: each["nominalQuota"] for each in flavor["resources"]} == {"cpu": "320", "memory": "1280Gi"}
    assert kueue.queued_job(3)["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": local["metadata"]["name"]}


def test_a_gang_of_one_is_a_group_and_then_a_job_of_the_second_scheduler() -> None:
    """In this order, because a pod without its PodGroup is put aside; the plugin orders the queue alone."""
    (group_path, group), (job_path, job) = coscheduling.gang(7)
    template = job["spec"]["template"]
    (profile,) = coscheduling.settings(Path("kubeconfig"))["profiles"]

    assert group_path.endswith("/podgroups")
    assert (job_path, group["spec"]) == (JOBS, {"minMember": 1})
    assert template["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": group["metadata"]["name"]}
    assert template["spec"]["schedulerName"] == profile["schedulerName"]
    assert profile["plugins"]["queueSort"]["disabled"] == [{"name": "*"}]


def test_who_is_audited_keeps_the_groups_of_its_rights(tmp_path: Path) -> None:
    """A component of the control plane its own; any other user those of a service account."""
    plane = ControlPlane(tmp_path, tmp_path, (SCHEDULER, "kueue"))

    assert plane.groups[SCHEDULER] == "system:authenticated"
    assert plane.groups["kueue"] == "system:serviceaccounts,steepest"
