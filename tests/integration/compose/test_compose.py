"""compose.yaml on a real engine: its containers, the demo's jobs, its metrics in Prometheus, its command line."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steepest.app.installed_services import GROUP
from steepest.log.kafka.broker import missing as missing_kafka
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine
from steepest_lab.docker_engines.engine_daemon import missing as missing_engine

from . import stand_ins

T = TypeVar("T")

HERE = Path(__file__).parent
REPOSITORY = Path(__file__).parents[3]
HOME = images.default_folder().absolute()
COMPOSE = HOME / "docker-compose"
KAFKA = Path(os.environ.get("STEEPEST_KAFKA_HOME", REPOSITORY / ".kafka"))
PATIENCE_S = 240.0
JOBS_OF_THE_DEMO = 8
OWN = "own"

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow, pytest.mark.timeout(900)]


def why_not() -> str:
    """What is missing here, and the command that gets it."""
    if why := missing_engine() or images.missing(HOME):
        return f"{why}: run `make engine images`"
    if not COMPOSE.exists():
        return f"there is no {COMPOSE}: run `make engine`"
    return f"{why}: run `make kafka`" if (why := missing_kafka(KAFKA)) else ""


class Stack:
    """The containers of compose.yaml on an engine."""

    def __init__(self, url: str, *, ports: dict[str, str]) -> None:
        self._env = {**os.environ, "DOCKER_HOST": url, "DOCKER_BUILDKIT": "0", **ports}

    def call(self, *arguments: str, check: bool = True) -> str:
        """Runs ``docker compose ...``; returns its standard output."""
        files = ("-f", str(REPOSITORY / "compose.yaml"), "-f", str(HERE / "stand-ins.yaml"))
        done = subprocess.run(
            [str(COMPOSE), *files, *arguments],
            env=self._env,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, (
            f"{arguments}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
        return done.stdout

    def config(self) -> dict[str, Any]:
        """What compose.yaml says, the Grafana service included."""
        read: dict[str, Any] = json.loads(self.call("--profile", "*", "config", "--format", "json"))
        return read

    def steepest(self, service: str, *arguments: str) -> Any:
        """``docker compose exec SERVICE steepest ... --json``, decoded."""
        return json.loads(self.call("exec", "-T", service, "steepest", *arguments, "--json"))

    def containers(self) -> list[dict[str, Any]]:
        """All containers, the ended ones too."""
        return [json.loads(line) for line in self.call("ps", "--all", "--format", "json").splitlines()]


def until(look: Callable[[], T | None], what: str, report: Callable[[], object]) -> T:
    """Calls ``look`` until it returns something; fails with ``report()`` when the time is over."""
    give_up_at = time.monotonic() + PATIENCE_S
    while (found := look()) is None:
        if time.monotonic() > give_up_at:
            pytest.fail(f"no {what} within {PATIENCE_S} s: {report()}")
        time.sleep(1)
    return found


def free_port() -> str:
    """A port that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus() -> str:
    """The port that Prometheus is published on."""
    return free_port()


@pytest.fixture(scope="module")
def page() -> str:
    """The port that the gateway is published on."""
    return free_port()


@pytest.fixture(scope="module")
def stack(prometheus: str, page: str) -> Iterator[Stack]:
    """The running stack; it is removed with its volumes afterwards. The engine keeps its images for the next run."""
    if why := why_not():
        pytest.skip(why)
    # An engine that has to turn forwarding on drops what others forward, and leaves the machine so.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    engine = DockerEngine(HOME / "compose", options=("--iptables=true",))
    with (HOME / "compose.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the same checkout has the same engine
        yield from running(engine, {"PROMETHEUS_PORT": prometheus, "GATEWAY_PORT": page, "MQTT_PORT": free_port()})


def running(engine: DockerEngine, ports: dict[str, str]) -> Iterator[Stack]:
    """The stack on an engine that is started, and stopped afterwards."""
    engine.start()
    try:
        stack = Stack(engine.url, ports=ports)
        images = [service["image"] for service in stack.config()["services"].values()]
        with contextlib.closing(engine.client()) as client:
            base = "python:3.11-slim-bookworm"
            assert f"ARG PYTHON={base}\n" in (REPOSITORY / "Dockerfile").read_text()
            stand_ins.provide(client, [base, *dict.fromkeys(images)], home=HOME, kafka=KAFKA / "libs")
        stack.call("down", "--volumes", "--remove-orphans")
        try:
            try:
                stack.call("up", "--detach", "--build")
            except AssertionError:
                print(stack.call("logs", "--tail", "60", "node"))  # noqa: T201 - why it is not well
                raise
            yield stack
        finally:
            stack.call("down", "--volumes", "--timeout", "5", check=False)
    finally:
        engine.stop()


def test_every_service_is_there_and_ready(stack: Stack) -> None:
    """Each installed service is a container or runs in the node's, and every container that can be asked is healthy."""
    config = stack.config()["services"]
    command = config["node"]["command"]
    at_the_node = {command[at + 1] for at, word in enumerate(command) if word == "--service"}
    assert {point.name for point in entry_points(group=GROUP)} == at_the_node | (
        config.keys() - {"kafka", "mosquitto", "node", "gateway", "demo", "prometheus", "grafana"}
    )

    def ready() -> bool | None:
        states = stack.containers()
        waits = [each["Name"] for each in states if each["Health"] not in ("", "healthy")]
        return None if waits else True

    until(ready, "health", lambda: stack.call("logs", "--tail", "20"))
    states = stack.containers()
    assert {each["Service"] for each in states if each["State"] != "running"} <= {"demo"}
    assert [each["Service"] for each in states].count("placer") == 2
    assert {each["Service"] for each in states if each["Health"] == "healthy"} == (
        config.keys() - {"demo", "grafana", "mosquitto", "prometheus"}
    )


def test_kafka_is_reached_by_the_services_alone(stack: Stack) -> None:
    """Kafka accepts every client here, so only the services that need it share its network."""
    networks = {name: set(each["networks"]) for name, each in stack.config()["services"].items()}
    beside_kafka = {name for name, on in networks.items() if on & networks["kafka"]}
    assert beside_kafka == networks.keys() - {"mosquitto", "prometheus", "grafana"}


def test_the_demos_jobs_run_to_their_end(stack: Stack) -> None:
    """`docker compose up` has submitted them; any container can report their state, and they finish."""

    def over() -> list[dict[str, Any]] | None:
        jobs = [job for job in stack.steepest("categorizer", "jobs", "--all") if job["job"] != OWN]
        ended = [job for job in jobs if job["outcome"]]
        return jobs if len(ended) == len(jobs) == JOBS_OF_THE_DEMO else None

    jobs = until(over, "end of the demo's jobs", lambda: stack.steepest("node", "jobs", "--all"))
    assert {job["outcome"] for job in jobs} == {"finished"}
    table = stack.call("exec", "-T", "placer", "steepest", "jobs", "--all")
    assert all(job["job"][:8] in table for job in jobs)


def test_a_job_of_ones_own_finishes(stack: Stack) -> None:
    """Submitted from one container, it runs in the node's, and its losses are read."""
    command = ("python", "-m", "steepest_lab.jobs.softmax", "--steps", "60")
    asked = ("submit", "--name", OWN, "--wait", "--json", "--", *command)
    answer = json.loads(stack.call("exec", "-T", "rebalancer", "steepest", *asked).splitlines()[-1])
    assert (answer["job"], answer["outcome"]) == (OWN, "finished")
    assert OWN in stack.call("exec", "-T", "node", "steepest", "explain", OWN)


def test_the_gateway_answers_who_has_a_token(stack: Stack, page: str) -> None:
    """It is published on this machine's port: the page for all, the pool for the tokens that it has made itself."""
    address = f"http://127.0.0.1:{page}"
    lines = stack.call("exec", "-T", "gateway", "cat", "/var/lib/steepest/gateway-tokens").splitlines()
    tokens = dict(line.split() for line in lines)

    def status(path: str, token: str = "") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert sorted(tokens) == ["operate", "read", "submit"]
    assert [status("/"), status("/api/v1/jobs")] == [200, 401]
    assert status("/api/v1/jobs", tokens["read"]) == 200
    asked = ("exec", "-T", "-e", f"STEEPEST_CLIENT_TOKEN={tokens['read']}", "gateway")
    command = ("steepest", "jobs", "--all", "--server", "http://127.0.0.1:8080", "--json")
    until(lambda: json.loads(stack.call(*asked, *command)) or None, "job", lambda: stack.call("logs", "gateway"))


def test_prometheus_has_every_services_metrics(stack: Stack, prometheus: str) -> None:
    """All targets answer, and decisions can be queried."""

    def ask(query: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found

    services = stack.config()["services"]
    expected = Counter(services.keys() - {"kafka", "mosquitto", "demo", "prometheus", "grafana"})
    expected["placer"] = 2
    expected["node"] += services["node"]["command"].count("--service")

    def all_up() -> bool:
        targets = ask("up")
        hosts = Counter(each["metric"]["instance"].partition(":")[0] for each in targets)
        return hosts == expected and all(each["value"][1] == "1" for each in targets)

    until(lambda: all_up() or None, "answer of every target", lambda: ask("up"))
    placed = 'sum(steepest_decisions_total{event="PlacementPlanned"}) > 0'
    until(lambda: ask(placed) or None, "placement", lambda: ask("steepest_decisions_total"))
