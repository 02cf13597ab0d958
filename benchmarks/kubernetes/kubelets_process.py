"""The process of the fake kubelets, as the benchmark starts it and reads what it writes.

It owns that process. It must never talk to the API server.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.kubernetes.pod_times import LINES, PodTimes


class Kubelets:
    """The fake kubelets' process, and what it has written so far.

    Attributes:
        times: What it has written, as far as it was read.
    """

    def __init__(self, kubeconfig: Path, folder: Path, port: int) -> None:
        self._folder = folder
        folder.mkdir()
        with (folder / "kubelets.log").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.kubernetes.fake_kubelets", str(kubeconfig), str(folder), str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.times = PodTimes(folder / LINES)

    def read(self) -> None:
        """Read what was written since.

        Raises:
            RuntimeError: The process has ended.
        """
        if self.process.poll() is not None:
            raise RuntimeError(f"the kubelets have ended: {(self._folder / 'kubelets.log').read_text()[-2_000:]}")
        self.times.read()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
