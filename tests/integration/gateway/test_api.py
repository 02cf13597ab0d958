"""The gateway's API, asked through both clients and by hand, over a real log and a process of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration.gateway.served import PATIENCE_S, ServedFolder, measured, running, submitted

from steepest.app.settings.gateway import GatewaySettings
from steepest.cli.main import main
from steepest.client import AsyncClient, Client, GatewayError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.gateway.pools import recordings_served
from steepest.gateway.server import listening

HOSTILE = "<script>alert(1)</script>\u202e\x07\"'&"


def ask(address: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A request by hand: status, headers, body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", headers=headers), timeout=60) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, {k.lower(): v for k, v in error.headers.items()}, error.read()


def test_it_says_what_the_command_line_says(served: ServedFolder) -> None:
    """Jobs and nodes over HTTP are the rows of ``jobs --json`` and ``nodes --json``; `--server` prints the same tables."""
    served.append(*running("a", "n1", model=HOSTILE), *submitted("b"), measured("a", 1, 2.0))
    address = served.start()

    def said(*call: str) -> Any:
        return json.loads(CliRunner().invoke(main, [*call, "--json"], catch_exceptions=False).stdout)

    def without_times(rows: Any) -> Any:
        return [{name: value for name, value in row.items() if not name.endswith("_ms")} for row in rows]

    here = ("--state", str(served.folder.root))
    for command in ("jobs", "nodes"):
        assert without_times(said(command, "--server", address)) == without_times(said(command, *here))
    assert said("explain", "a", "--server", address)["now"] == said("explain", "a", *here)["now"]
    shown = CliRunner().invoke(main, ["jobs", "--server", address], catch_exceptions=False).stdout
    assert "\x07" not in shown
    assert "a" in shown


def test_both_clients_have_the_same_names(served: ServedFolder) -> None:
    """Each call gives the same by either client."""
    served.append(*running("a", "n1"), *running("b", "n2"), *submitted("c"), measured("a", 1, 3.0))
    address = served.start()

    async def same() -> None:
        with Client(address) as now:
            async with AsyncClient(address) as later:
                assert [row.job for row in now.jobs()] == [row.job for row in await later.jobs()] == ["a", "b", "c"]
                assert [row.job for row in now.jobs(phase="waiting")] == ["c"]
                assert now.job("a").node == (await later.job("a")).node == "n1"
                assert [row.node for row in now.nodes()] == [row.node for row in await later.nodes()] == ["n1", "n2"]
                assert [row.job for row in now.queue()] == [row.job for row in await later.queue()] == ["c"]
                assert now.explain("a").entries == (await later.explain("a")).entries
                assert now.decisions(job="b") == await later.decisions(job="b")
                assert now.events(since=1, limit=3) == await later.events(since=1, limit=3)
                assert now.compare("default", "default").jobs == (await later.compare("default", "default")).jobs
                assert now.pools().pools[0].up is (await later.pools()).pools[0].up is False
                assert next(now.follow(since=2)) == await anext(later.follow(since=2))

    asyncio.run(same())
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncClient) if not name.startswith("_")}


def test_many_jobs_are_changed_through_a_gateway(served: ServedFolder) -> None:
    """With the words of the command line on the folder itself, and its exit status."""
    served.append(*submitted("s-1"), *submitted("s-2"), *submitted("t", queue="paper"))
    address = served.start()

    def said(*call: str) -> tuple[int, str]:
        env = {"STEEPEST_CLIENT_TOKEN": served.token}
        done = CliRunner().invoke(main, [*call, "--server", address], prog_name="steepest", env=env)
        return done.exit_code, done.output

    later = "as soon as a system runs on the pool\n"
    assert said("hold", "s-*") == (0, f"s-1 is held {later}s-2 is held {later}")
    assert said("release", "s-1", "t") == (1, f"s-1 is released {later}Error: t: nothing holds it\n")
    assert said("release", "t") == (2, "Error: t: nothing holds it; see `steepest explain t`\n")
    assert said("priority", "--queue", "paper", "--to", "-5")[1].startswith("t has the priority -5")
    assert said("nodes", "drain", "n1") == (0, f"n1 gets no more jobs {later}")
    assert said("nodes", "drain", "n9")[0] == 2
    assert said("cancel", "*")[1].count("will be cancelled") == 3
    with Client(address) as client:
        assert client.job("t").priority == -5
        assert [row.drained for row in client.nodes()] == [True, False]


def test_the_past_is_as_it_was(served: ServedFolder) -> None:
    """``at`` gives jobs, queue and story as they were before a record; beyond the log it is refused."""
    waiting = served.append(*submitted("a"))
    end = served.append(*running("b", "n1"))
    served.start()
    with Client(served.address) as client:
        assert [row.job for row in client.jobs(at=waiting + 1)] == ["a"]
        assert [row.job for row in client.jobs(at=end + 1)] == ["a", "b"]
        assert client.explain("a", at=waiting + 1).now.startswith("a is queued")
        with pytest.raises(GatewayError) as beyond:
            client.jobs(at=end + 1_000)
        assert beyond.value.status == 404
        with pytest.raises(GatewayError) as before:
            client.explain("b", at=waiting)
        assert before.value.code == "no-such-job"


def test_events_go_on_where_a_reader_was(served: ServedFolder) -> None:
    """A stream gives each event once and in order; the id of the last one is where the next stream begins."""
    served.append(*running("a", "n1"))
    served.start()
    with Client(served.address) as client:
        first = client.follow()
        seen = [next(first).offset for _ in range(5)]
        last = served.append(*submitted("b"))
        rest = client.follow(since=seen[-1] + 1)
        while seen[-1] < last:
            seen.append(next(rest).offset)
    assert seen == list(range(last + 1))


def test_roles(served: ServedFolder, tmp_path: Path) -> None:
    """What a token may do, and that no answer says more than it must."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text("read r" + "r" * 20 + "\nsubmit s" + "s" * 20 + "  # the team\noperate o" + "o" * 20 + "\n")
    served.append(*running("a", "n1"))
    address = served.start(STEEPEST_GATEWAY_TOKENS=str(tokens))
    spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=1))

    def status(token: str, what: str) -> int:
        try:
            with Client(address, token) as client:
                if what == "read":
                    client.jobs()
                elif what == "submit":
                    client.submit("new", spec, request="same")
                else:
                    client.cancel("a")
        except GatewayError as error:
            return error.status
        return 200

    read, submit, operate = (letter + letter * 20 for letter in "rso")
    assert [status(token, "read") for token in ("", "wrong" * 9, read, submit, operate)] == [401, 401, 200, 200, 200]
    assert [status(token, "submit") for token in ("", "wrong" * 9, read, submit)] == [401, 401, 403, 200]
    assert [status(token, "cancel") for token in ("", read, submit, operate)] == [401, 403, 403, 200]
    assert status(served.token, "cancel") == 200
    assert not any(token in served.output for token in (read, submit, operate, served.token))


def test_without_tokens_it_is_for_its_own_machine_alone(served: ServedFolder) -> None:
    """Other addresses need tokens; on this machine reading is open, and a change needs the folder's own token."""
    served.append(*submitted("a"))
    address = served.start()
    with Client(address) as client:
        assert client.job("a").phase == "waiting"
        with pytest.raises(GatewayError) as refused:
            client.submit("b", c.JobSpec(command=("train",)))
    assert refused.value.status == 401
    with Client(address, served.token) as client:
        assert client.submit("b", c.JobSpec(command=("train",))).state == "queued"
    assert served.folder.gateway.stat().st_mode & 0o077 == 0
    assert ask(address, "/api/v1/pools", Host="evil.example")[0] == 421
    served.stop()
    with pytest.raises(AssertionError, match="no tokens are named"):
        served.start(STEEPEST_GATEWAY_HOST="0.0.0.0")  # noqa: S104 - it refuses


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"job": "' + b"x" * 2**20 + b'", "spec": {"command": ["a"]}}', "application/json"),
        (json.dumps({"job": HOSTILE, "spec": {"command": ["a"]}}).encode(), "application/json"),
        (b'{"job": "a\\n", "spec": {"command": ["a"]}}', "application/json"),
        (b'{"job": "a", "spec": {"command": []}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"], "env": {"STEEPEST_JOB": "x"}}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"], "requests": {"cpu_m": 100000000}}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"], "requests": {"cpu_m": 0}}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"], "replicas": 10000, "requests": {"cpu_m": 1}}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"], "priority_class": "none such"}}', "application/json"),
        (b'{"job": "a", "spec": {"command": ["a"]}}', "text/plain"),
        (b"\xff\xfe", "application/json"),
    ],
)
def test_what_is_wrong_is_refused(served_once: ServedFolder, body: bytes, kind: str) -> None:
    """Hostile names, a body of a megabyte, one that is no JSON: a client's error, and nothing is written."""
    headers = {"Authorization": f"Bearer {served_once.token}", "Content-Type": kind}
    request = urllib.request.Request(f"{served_once.address}/api/v1/jobs", data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, said = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, said = error.code, error.read()
    except OSError:  # it answers before it has read all of a body that is too large
        status, said = 413, b"{}"
    assert 400 <= status < 500, said
    assert json.loads(said)["code"] != "bug" if said != b"{}" else True
    assert len(said) < 5_000
    with Client(served_once.address) as client:
        assert client.jobs() == []


def test_an_array_is_submitted_through_it(served: ServedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs tell themselves apart by a variable that no user may set otherwise."""
    address = served.start()
    monkeypatch.setenv("STEEPEST_CLIENT_TOKEN", served.token)
    call = ["submit", "--server", address, "--name", "a", "--array", "2", "--", "true"]
    assert CliRunner().invoke(main, call, catch_exceptions=False).exit_code == 0
    with Client(address) as client:
        said = [row.event["spec"]["env"] for row in client.events() if row.type == "JobSubmitted"]
    assert said == [{"STEEPEST_ARRAY_INDEX": "***"}] * 2


def test_what_cannot_be_read_stops_nothing(served: ServedFolder) -> None:
    """Records that are no events are passed over, and are events without a type."""
    served.append_raw(b"no event", b"\xff\x00", b'{"type":"JobSubmitted","job":"' + b"x" * 2**20 + b'"}')
    served.append(*submitted("a"))
    served.start()
    with Client(served.address) as client:
        assert [row.job for row in client.jobs()] == ["a"]
        assert sum(bool(row.unreadable) for row in client.events()) == 3


def test_secrets_are_not_shown(served: ServedFolder) -> None:
    """The values of a job's variables leave the gateway nowhere."""
    served.append(*submitted("a", env={"TOKEN": "do-not-tell"}))
    address = served.start()
    paths = ("/jobs", "/jobs/a", "/jobs/a/explain", "/events", "/decisions", "/picture", "/queue", "/nodes")
    for path in paths:
        assert b"do-not-tell" not in ask(address, f"/api/v1{path}")[2], path


def test_every_answer_tells_a_browser_to_be_careful(served_once: ServedFolder) -> None:
    """The page, its scripts, the API and its errors; no inline script is allowed anywhere."""
    for path in ("/", "/js/app.js", "/api/v1/pools", "/api/v1/jobs/none", "/nowhere", "/openapi.json"):
        _, headers, _ = ask(served_once.address, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_pool_that_is_added_is_served_without_a_restart(served: ServedFolder) -> None:
    """Once it is configured, its jobs can be submitted and seen; the streams of the others go on."""
    address = served.start()
    with Client(address, served.token) as client:
        before = client.follow()
        assert next(before).offset == 0
        call = ["pool", "add", "later", "--node", "n3=1", "--state", str(served.folder.root)]
        assert CliRunner().invoke(main, call, catch_exceptions=False).exit_code == 0
        patience = time.monotonic() + PATIENCE_S
        while [row.pool for row in client.pools().pools] != ["default", "later"]:
            assert time.monotonic() < patience
            time.sleep(0.05)
        spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=1))
        with pytest.raises(GatewayError, match="no system has configured pool later yet") as early:
            client.submit("new", spec, pool="later")
        assert early.value.status == 503
        served.configure("later")
        while client.pools().pools[1].position < 2:
            assert time.monotonic() < patience
            time.sleep(0.05)
        asked = client.submit("new", spec, pool="later")
        while [row.job for row in client.jobs(pool="later")] != ["new"]:
            assert time.monotonic() < patience
            time.sleep(0.05)

        assert [row.offset for row in client.events(pool="later", since=asked.offset)] == [asked.offset]
        assert client.jobs() == []
        assert next(before).offset == 1


def test_a_recording_never_changes(served: ServedFolder) -> None:
    """What `replay --view` serves takes no requests."""
    served.append(*submitted("a"))

    async def refused() -> int:
        async with (
            recordings_served({"one": served.folder.log, "other": served.folder.log}) as pools,
            listening(pools, GatewaySettings(port=0)) as here,
            AsyncClient(here.address, here.token) as client,
        ):
            assert (await client.pools()).recording
            assert [row.job for row in await client.jobs(pool="other")] == ["a"]
            with pytest.raises(GatewayError) as error:
                await client.submit("b", c.JobSpec(command=("train",)))
            with pytest.raises(GatewayError, match="a recording has nothing of what its jobs printed"):
                await client.log("a")
            return error.value.status

    assert asyncio.run(refused()) == 409


def test_a_reader_that_is_no_browser_costs_nothing(served_once: ServedFolder) -> None:
    """A silent connection and a half-sent request delay no other client's answer."""
    host, port = "127.0.0.1", int(served_once.address.rpartition(":")[2])
    silent = [socket.create_connection((host, port)) for _ in range(50)]
    for one in silent[::2]:
        one.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127")
    with Client(served_once.address) as client:
        assert client.jobs() == []
    for one in silent:
        one.close()
