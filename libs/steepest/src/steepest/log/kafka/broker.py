"""A private Kafka broker on this machine: one process in KRaft mode, for tests, demos and `steepest up --kafka auto`.

It owns formatting, starting and stopping. The jars come from ``make kafka`` (Maven), and Java 17 or newer from the system.

Appending to the log allows running commands as its user. So a *guarded* broker requires a password, also for its controller,
and gets a new one with each start: a password that was sent to another process on the same port becomes useless. The
password is only in files that only this user may read, because all users can see a process's arguments.
"""

from __future__ import annotations

import base64
import contextlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from steepest.errors import InputError, LogUnavailableError
from steepest.log.files.atomic_write import write_atomically
from steepest.log.kafka.kafka_settings import KafkaSettings

HOME = Path(KafkaSettings().home)
"""Where the jars are unless another folder is named."""

PASSWORD = "password"  # noqa: S105 - a name
"""The password file in the broker's folder."""

START_S = 60.0
"""A broker starts in 5 s on two idle cores."""

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENTS://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CLIENTS:{security},CONTROLLER:{security}
log.dir={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=9437184
replica.fetch.max.bytes=9437184
log.cleaner.backoff.ms=1000
# Only one cleaner: a heap this small has no room for two of the usual size.
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
"""

SASL_PROPERTIES = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={login}
listener.name.controller.plain.sasl.jaas.config={login}
"""
SASL_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{user}" password="{password}" user_{user}="{password}";'
)
USER = "steepest"


class Broker:
    """One broker process with a data folder, which persists between starts."""

    def __init__(self, folder: Path, *, home: Path = HOME, port: int | None = None, guarded: bool = False) -> None:
        """Use the jars in ``home``."""
        self.folder = folder
        before = _ports_before(folder)
        self.port = port or (before[0] if before else _free_port())
        self._controller = before[1] if before else _free_port()
        self._guarded = guarded
        self._home = home
        self._process: psutil.Process | None = None

    @property
    def bootstrap(self) -> str:
        """The bootstrap server, as ``host:port``."""
        return f"127.0.0.1:{self.port}"

    def settings(self, prefix: str = "") -> KafkaSettings:
        """The settings of clients, for topics with this prefix. The broker must have been started before.

        Raises:
            LogUnavailableError: It never was, or it belongs to another user.
        """
        if not self._guarded:
            return KafkaSettings(bootstrap=self.bootstrap, prefix=prefix)
        return KafkaSettings(
            bootstrap=self.bootstrap,
            prefix=prefix,
            security="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            username=USER,
            password=_password(self.folder),
        )

    @property
    def pid(self) -> int:
        """The broker's pid.

        Raises:
            LogUnavailableError: It does not run.
        """
        if self._process is None:
            raise LogUnavailableError("the broker does not run")
        return self._process.pid

    def answers(self) -> bool:
        """Whether something listens where clients connect."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def start(self) -> None:
        """Format the folder if it is new, start, and wait until the broker accepts connections.

        A broker that still runs on the folder, because its starter was killed, is adopted.

        Raises:
            InputError: Java or the jars are missing.
            LogUnavailableError: It does not start; the message has the end of its log.
        """
        why = missing(self._home)
        if why:
            raise InputError(why, code="no-kafka", hint="make kafka")
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = _properties(self.folder)
        is_new = not properties.exists()
        if (runs := self._still_running(properties)) != self._process:
            if self._process is not None:
                with contextlib.suppress(psutil.TimeoutExpired):
                    self._process.wait(0)  # it was killed
            self._process = runs
        if self._process is None and (is_new or self._guarded):
            self._configure(properties)
        if is_new:
            self._java("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id(), "-c", str(properties))
        if self._process is None:
            with (self.folder / "broker.log").open("ab") as log:
                self._process = psutil.Popen(
                    self._command("kafka.Kafka", str(properties)), stdout=log, stderr=log, start_new_session=True
                )
            self._pid_file.write_text(str(self._process.pid))
        self._wait()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it; ``SIGKILL`` simulates a crash."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.send_signal(number)
        try:
            self._process.wait(timeout=20)
        except psutil.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _configure(self, properties: Path) -> None:
        text = PROPERTIES.format(
            port=self.port,
            controller=self._controller,
            folder=self.folder.resolve(),
            security="SASL_PLAINTEXT" if self._guarded else "PLAINTEXT",
        )
        if self._guarded:
            password = secrets.token_hex(32)
            write_atomically(self.folder / PASSWORD, password.encode())
            text += SASL_PROPERTIES.format(login=SASL_LOGIN.format(user=USER, password=password))
        write_atomically(properties, text.encode())

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    def _still_running(self, properties: Path) -> psutil.Process | None:
        """The process that runs on the folder already. The command line is checked, because the pid may be reused."""
        with contextlib.suppress(FileNotFoundError, ValueError, psutil.Error):
            process = psutil.Process(int(self._pid_file.read_text()))
            return process if str(properties) in process.cmdline() else None
        return None

    def _java(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise LogUnavailableError(f"{arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")

    def _command(self, *arguments: str) -> Sequence[str]:
        # One compiler tier and a small heap: it starts faster, and uses less of a test machine.
        return ["java", "-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{self._home}/libs/*", *arguments]

    def _wait(self) -> None:
        assert self._process is not None  # noqa: S101 - started by the caller
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
                break
            if self.answers():
                return
            time.sleep(0.05)
        tail = (self.folder / "broker.log").read_text(errors="replace")[-2000:]
        raise LogUnavailableError(f"the broker did not start: {tail}")


@contextlib.contextmanager
def running_broker(folder: Path, *, home: Path = HOME) -> Iterator[Broker]:
    """A broker that runs within the context."""
    broker = Broker(folder, home=home)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def missing(home: Path) -> str:
    """The missing part that a broker needs on this machine, as a message; empty if nothing."""
    if shutil.which("java") is None:
        return "no Java: a Kafka broker needs Java 17 or newer"
    if not any(home.glob("libs/kafka_*.jar")):
        return f"no Kafka in {home}"
    return ""


def _password(folder: Path) -> str:
    try:
        return (folder / PASSWORD).read_text()
    except OSError as error:
        raise LogUnavailableError(
            f"the password of the broker in {folder} cannot be read: {error.strerror}",
            hint="start the broker with `steepest up`, as the user who owns it",
        ) from error


def _ports_before(folder: Path) -> tuple[int, int] | None:
    """The ports that the folder's broker and controller had before: clients and its own log remember them."""
    with contextlib.suppress(FileNotFoundError):
        found = re.search(
            r"^listeners=\w+://127.0.0.1:(\d+),CONTROLLER://127.0.0.1:(\d+)$",
            _properties(folder).read_text(),
            re.MULTILINE,
        )
        return (int(found[1]), int(found[2])) if found else None
    return None


def _properties(folder: Path) -> Path:
    return folder / "server.properties"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def cluster_id() -> str:
    """A new cluster id. It starts with a letter: Kafka's tool would take an id that starts with a dash for an option."""
    return base64.urlsafe_b64encode((uuid.uuid4().int >> 6).to_bytes(16, "big")).decode().rstrip("=")
