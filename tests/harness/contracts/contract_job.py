"""A job for cluster contract suites: counts steps, speaks the control folder's protocol, and misbehaves on request.

It needs nothing but Python's standard library, so that it runs wherever an adapter puts it. It is a second writer of the
protocol, next to the SDK, on purpose: it stands for the job's side of ``docs/control-folder.md``, and can also break it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

STOPPED_STATUS = 85
LOST_STATUS = 4
"""A peer is gone, so the step cannot be done."""

_LOOK_S = 0.02


class MeetingLost(Exception):  # noqa: N818 - named by what happened
    """A peer of the meeting has closed its connection."""


class Meeting:
    """The peers of a gang, which do every step together: each tells rank 0, and rank 0 answers when all have."""

    def __init__(self, job: ContractJob) -> None:
        self._job = job
        self._rank = int(os.environ["STEEPEST_RANK"])
        self._peers = [peer.rsplit(":", 1) for peer in os.environ["STEEPEST_PEERS"].split(",")]
        self._links: list[socket.socket] = []

    def begin(self) -> None:
        """Connect: rank 0 with all others."""
        if self._rank == 0:
            with socket.create_server(("", int(self._peers[0][1])), backlog=len(self._peers)) as server:
                server.settimeout(_LOOK_S)
                while len(self._links) < len(self._peers) - 1 and not self._job.stopping:
                    with contextlib.suppress(TimeoutError):
                        self._links.append(server.accept()[0])
            return
        host, port = self._peers[0]
        while not self._links and not self._job.stopping:
            try:
                self._links.append(socket.create_connection((host, int(port)), timeout=5.0))
            except OSError:
                time.sleep(_LOOK_S)

    def step(self) -> None:
        """Wait for the peers' step."""
        if self._rank:
            self._links[0].sendall(b".")
        for link in self._links:
            self._receive(link)
        if not self._rank:
            for link in self._links:
                with contextlib.suppress(OSError):
                    link.sendall(b".")

    def _receive(self, link: socket.socket) -> None:
        link.settimeout(_LOOK_S)
        while not self._job.stopping:
            try:
                if link.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                pass
            raise MeetingLost


class ContractJob:
    """One run of the job. Steps are empty; the state is the number of the last one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._control = Path(os.environ["STEEPEST_CONTROL"])
        self._checkpoints = Path(os.environ["STEEPEST_CHECKPOINTS"])
        self.stopping = False
        self._replica = int(os.environ["STEEPEST_REPLICA"])
        self._meeting = Meeting(self) if options.meet else None
        self._answered = ""
        self._restored = os.environ.get("STEEPEST_RESTORE") or None
        self._step = 0

    def run(self) -> int:
        """Train; give the exit status."""
        signal.signal(signal.SIGTERM, self._on_term)
        in_gang = [str(self._replica)] if "STEEPEST_RANK" in os.environ else []
        print("begins", os.environ["STEEPEST_JOB"], os.environ["STEEPEST_INCARNATION"], *in_gang, flush=True)  # noqa: T201
        if self._options.fail_start == self._replica:
            return 7
        if self._options.metrics:
            self._put_metrics(self._checkpoints / "tracked" / "metrics")
        if self._restored:
            self._step = json.loads((self._checkpoints / self._restored / "state.json").read_text())["step"]
        self._put(
            "hello.json",
            {
                "checkpoint_mode": self._options.mode,
                "restored_step": self._step if self._restored else None,
                "restored": self._restored,
            },
        )
        if self._meeting is not None:
            self._meeting.begin()
        while self._options.steps is None or self._step < self._options.steps:
            try:
                self._train_a_step()
            except MeetingLost:
                return LOST_STATUS
            if not self.stopping:
                self._serve()
            if self.stopping:
                return self._leave()
        return int(self._options.exit)

    def _on_term(self, _number: int, _frame: object) -> None:
        self.stopping = not self._options.ignore_term

    def _train_a_step(self) -> None:
        until = time.monotonic() + self._options.step_s
        while time.monotonic() < until:
            if not self._options.burn:
                time.sleep(self._options.step_s)
        if self._meeting is not None:
            self._meeting.step()
            if self.stopping:  # the step was not done
                return
        self._step += 1
        with (self._control / "reports.jsonl").open("a") as reports:
            reports.write(json.dumps({"step": self._step, "at_ms": time.time_ns() // 10**6, "metrics": {}}) + "\n")

    def _leave(self) -> int:
        if self._options.mode != "none" and self._replica == 0:
            self._save()
        return STOPPED_STATUS

    def _serve(self) -> None:
        request = self._get("checkpoint-request.json")
        if request is None or request["request"] == self._answered or self._options.silent:
            return
        self._answered = request["request"]
        if self._replica:
            self._put("checkpoint-ack.json", {"request": self._answered, "refused": "replica 0 saves"})
            return
        if self._options.mode != "on-request":
            self._put("checkpoint-ack.json", {"request": self._answered, "refused": "it saves when it is stopped"})
            return
        time.sleep(self._options.save_s)
        self._put("checkpoint-ack.json", {"request": self._answered, **self._save()})
        until = time.monotonic() + request["hold_s"]
        while time.monotonic() < until and not self.stopping:
            release = self._get("release.json")
            if release is not None and release["request"] == self._answered:
                return
            time.sleep(0.01)

    def _save(self) -> dict[str, object]:
        incarnation = int(os.environ["STEEPEST_INCARNATION"])
        name = f"step-{self._step:08d}-i{incarnation:04d}"
        content = json.dumps({"step": self._step}).encode()
        sha256 = hashlib.sha256(content).hexdigest()
        line = f"state.json\t{len(content)}\t{sha256}\n"
        digest = "sha256:" + hashlib.sha256(line.encode()).hexdigest()
        manifest = {
            "job": os.environ["STEEPEST_JOB"],
            "step": self._step,
            "incarnation": incarnation,
            "digest": digest,
            "files": {"state.json": {"bytes": len(content), "sha256": sha256}},
        }
        if not (self._checkpoints / name).exists():
            temporary = self._checkpoints / f".{name}.new"
            temporary.mkdir(parents=True)
            (temporary / "state.json").write_bytes(content if not self._options.spoil else b"x" * len(content))
            (temporary / "manifest.json").write_text(json.dumps(manifest))
            temporary.rename(self._checkpoints / name)
        return {"name": name, "step": self._step, "digest": digest}

    def _put_metrics(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "loss").write_text("1 0.5 1\n")
        (folder / "elsewhere").symlink_to("/")
        print("tracked", folder, flush=True)  # noqa: T201

    def _get(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._control / name).read_text())
        except FileNotFoundError:
            return None
        return found

    def _put(self, name: str, content: object) -> None:
        temporary = self._control / f".{name}"
        temporary.write_text(json.dumps(content))
        temporary.replace(self._control / name)


def main() -> None:
    """Run one job as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="on-request", help="what it says of itself: on-request, on-stop or none")
    parser.add_argument("--steps", type=int, help="leave after this many; without it, never")
    parser.add_argument("--exit", type=int, default=0, help="the status to leave with after the last step")
    parser.add_argument("--step-s", type=float, default=0.01, help="how long a step takes, in seconds")
    parser.add_argument("--save-s", type=float, default=0.0, help="how much longer a save on request takes, in seconds")
    parser.add_argument("--burn", action="store_true", help="compute during the steps instead of sleeping")
    parser.add_argument("--ignore-term", action="store_true", help="do not leave on SIGTERM")
    parser.add_argument("--silent", action="store_true", help="answer no request")
    parser.add_argument("--meet", action="store_true", help="do each step together with the peers of the gang")
    parser.add_argument("--fail-start", type=int, help="the replica with this index leaves with status 7 as it starts")
    parser.add_argument("--metrics", action="store_true", help="write a metric beside its checkpoints, and print where")
    parser.add_argument("--spoil", action="store_true", help="write checkpoints that do not match their manifest")
    sys.exit(ContractJob(parser.parse_args()).run())


if __name__ == "__main__":
    main()
