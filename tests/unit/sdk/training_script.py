"""A training in small: a random walk towards zero, its whole state in one file. The tests run it as a process.

Markers in the folder that it runs in make its moments observable: it writes ``at-<moment>`` and waits for
``go-<moment>`` wherever an option asks for it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from types import FrameType

import steepest_sdk


class Walk:
    """One weight, moved by noise from its own generator."""

    def __init__(self) -> None:
        self.weight = 10.0
        self.noise = random.Random(5)

    def step(self) -> float:
        """Moves once; returns the loss."""
        self.weight -= 0.05 * (self.weight - self.noise.gauss(0.0, 1.0))
        return self.weight**2

    def save(self, folder: Path) -> None:
        """Writes the whole state."""
        folder.joinpath("deep").mkdir()
        folder.joinpath("deep", "noise.json").write_text(json.dumps(self.noise.getstate()))
        folder.joinpath("weight.json").write_text(json.dumps(self.weight))

    def load(self, folder: Path) -> None:
        """Reads it again."""
        version, state, gauss = json.loads(folder.joinpath("deep", "noise.json").read_text())
        self.noise.setstate((version, tuple(state), gauss))
        self.weight = json.loads(folder.joinpath("weight.json").read_text())


def meet(moment: str) -> None:
    """Says that a moment has come, then waits until the test lets it pass.

    It lasts longer than the time in which the SDK does not look again, so that the next report is sure to look.
    """
    time.sleep(0.06)
    Path(f"at-{moment}").touch()
    give_up_at = time.monotonic() + 60
    while not Path(f"go-{moment}").exists():
        assert time.monotonic() < give_up_at, moment
        time.sleep(0.002)


def work(kind: str, run: steepest_sdk.Run) -> None:
    """Lets a thread or a forked process report once, or a forked process be terminated."""
    if kind == "thread":
        thread = threading.Thread(target=report_once, args=(run,))
        thread.start()
        thread.join()
        return
    worker = multiprocessing.get_context("fork").Process(target=report_once, args=(run,))
    worker.start()
    worker.join()
    Path("worker-exit").write_text(str(worker.exitcode))


def strike_at_birth() -> None:
    """Every process forked from now on is sent SIGTERM before anything else happens in it."""
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))


def report_once(run: steepest_sdk.Run) -> None:
    """Reports the current step."""
    meet("worker-runs")
    run.report(seen=1)


def train_by_steps(options: argparse.Namespace, run: steepest_sdk.Run, walk: Walk) -> None:
    """Reports every step."""
    for step in run.steps(options.total):
        loss = walk.step()
        if step in options.meet_at:
            meet(str(step))
        if step == options.checkpoint_before:
            run.checkpoint()
        run.report(step, loss=loss)
        if options.checkpoint_every and step % options.checkpoint_every == 0:
            run.checkpoint()


def train_in_threads(total: int, run: steepest_sdk.Run) -> None:
    """Eight threads report without a number, and so does the one that started the run."""

    def report(thread: int) -> None:
        for _ in range(total):
            run.report(loss=thread)

    threads = [threading.Thread(target=report, args=(thread,)) for thread in range(1, 9)]
    for thread in threads:
        thread.start()
    report(0)
    for thread in threads:
        thread.join()


def train_by_epochs(options: argparse.Namespace, run: steepest_sdk.Run, walk: Walk) -> None:
    """Four steps an epoch; reports them, or only their number, or neither."""
    for epoch in run.epochs(options.total):
        losses = [walk.step() for _ in range(4)]
        if epoch in options.meet_at:
            meet(str(epoch))
        for loss in losses if options.loop == "epochs" else []:
            run.report(loss=loss)
        if options.loop == "silent-epochs":
            run.step = 4 * epoch


def take_signal() -> None:
    """Puts a handler in the SDK's place that calls the SDK's, as Lightning does."""
    before = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(before):
            before(number, frame)
        Path("theirs").touch()

    signal.signal(signal.SIGTERM, handle)


def train_in_a_framework(options: argparse.Namespace, run: steepest_sdk.Run, walk: Walk) -> None:
    """One hook reports the steps; another one stops the training, and is only called if the first one asks for it."""
    if options.meet_before_loop:
        take_signal()
        meet("taken")
        run.keep_stop_signal()
    for step in range(run.step + 1, options.total + 1):
        loss = walk.step()
        if step in options.meet_at:
            meet(str(step))
        run.record(step, loss=loss)
        if run.wanted:
            run.safe_point()


def options_given() -> argparse.Namespace:
    """What the test asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--total", type=int, default=60)
    parser.add_argument("--mode", default="on-request")
    parser.add_argument(
        "--loop", choices=["steps", "threads", "epochs", "silent-epochs", "bare-epochs", "framework"], default="steps"
    )
    parser.add_argument("--meet-at", type=int, nargs="*", default=[], help="meet the test in these steps")
    parser.add_argument("--meet-before-loop", action="store_true", help="the framework takes SIGTERM first")
    parser.add_argument("--save-fails", action="store_true")
    parser.add_argument("--meet-in-save", action="store_true")
    parser.add_argument("--checkpoint-every", type=int, default=0, help="the script saves every so many steps")
    parser.add_argument(
        "--checkpoint-before", type=int, default=0, help="the script saves in this step, before its report"
    )
    parser.add_argument("--worker", choices=["struck", "process", "thread"], help="let something else run first")
    return parser.parse_args()


def main() -> None:
    """Trains."""
    options = options_given()
    walk = Walk()

    def save(folder: Path) -> None:
        if options.save_fails:
            raise OSError("no room left for this walk")
        walk.save(folder)
        with Path("saved-by").open("a") as file:
            file.write(f"{os.getpid()} {threading.current_thread().name}\n")
        if options.meet_in_save:
            meet("save")

    if options.worker == "struck":
        strike_at_birth()
    if options.mode == "none":
        run = steepest_sdk.start()
    else:
        run = steepest_sdk.start(save=save, load=walk.load, mode=options.mode)
    if options.worker:
        work(options.worker, run)
    if options.loop == "steps":
        train_by_steps(options, run, walk)
    elif options.loop == "threads":
        train_in_threads(options.total, run)
    elif options.loop == "framework":
        train_in_a_framework(options, run, walk)
    else:
        train_by_epochs(options, run, walk)
    Path("result").write_text(repr(walk.weight))


if __name__ == "__main__":
    main()
