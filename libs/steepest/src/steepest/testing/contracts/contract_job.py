"""A job for cluster contract suites: counts steps, speaks the control folder's protocol, and misbehaves on request.

It needs nothing but Python's standard library, so that it runs wherever an adapter puts it. It is a second writer of the
protocol beside the SDK, on purpose: it stands for the job's side of ``docs/control-folder.md``, and can also break it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

STOPPED_STATUS = 85


class ContractJob:
    """One run of the job. Steps are empty; the state is the number of the last one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._control = Path(os.environ["STEEPEST_CONTROL"])
        self._checkpoints = Path(os.environ["STEEPEST_CHECKPOINTS"])
        self._stop = False
        self._answered = ""
        self._restored = os.environ.get("STEEPEST_RESTORE") or None
        self._step = 0

    def run(self) -> int:
        """Train; give the exit status."""
        signal.signal(signal.SIGTERM, self._on_term)
        print("begins", os.environ["STEEPEST_JOB"], os.environ["STEEPEST_INCARNATION"], flush=True)  # noqa: T201
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
        while self._options.steps is None or self._step < self._options.steps:
            self._train_a_step()
            if not self._stop:
                self._serve()
            if self._stop:
                return self._leave()
        return int(self._options.exit)

    def _on_term(self, _number: int, _frame: object) -> None:
        self._stop = not self._options.ignore_term

    def _train_a_step(self) -> None:
        until = time.monotonic() + self._options.step_s
        while time.monotonic() < until:
            if not self._options.burn:
                time.sleep(self._options.step_s)
        self._step += 1
        with (self._control / "reports.jsonl").open("a") as reports:
            reports.write(json.dumps({"step": self._step, "at_ms": time.time_ns() // 10**6, "metrics": {}}) + "\n")

    def _leave(self) -> int:
        if self._options.mode != "none":
            self._save()
        return STOPPED_STATUS

    def _serve(self) -> None:
        request = self._get("checkpoint-request.json")
        if request is None or request["request"] == self._answered or self._options.silent:
            return
        self._answered = request["request"]
        if self._options.mode != "on-request":
            self._put("checkpoint-ack.json", {"request": self._answered, "refused": "it saves when it is stopped"})
            return
        time.sleep(self._options.save_s)
        self._put("checkpoint-ack.json", {"request": self._answered, **self._save()})
        until = time.monotonic() + request["hold_s"]
        while time.monotonic() < until and not self._stop:
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
    parser.add_argument("--spoil", action="store_true", help="write checkpoints that do not match their manifest")
    sys.exit(ContractJob(parser.parse_args()).run())


if __name__ == "__main__":
    main()
