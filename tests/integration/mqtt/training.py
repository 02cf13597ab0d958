"""A training on a device: it reports a number of steps, and ends by itself or is killed."""

from __future__ import annotations

import os
import signal
import sys

import steepest_sdk

run = steepest_sdk.start()
for step in run.steps(int(sys.argv[1])):
    run.report(step, loss=1.0 / step, val_acc=0.5)
if sys.argv[2:] == ["die"]:
    os.kill(os.getpid(), signal.SIGKILL)
