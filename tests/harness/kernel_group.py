"""The caps of a process's control group, read from the kernel: what an engine says of them proves nothing."""

from __future__ import annotations

from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


class KernelGroup:
    """The control group of a process, in either version."""

    def __init__(self, pid: int) -> None:
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        self._paths = {controller: path for _, names, path in lines for controller in names.split(",")}

    @property
    def folder(self) -> Path:
        """Where its CPU control is."""
        return GROUPS / "cpu" / self._paths["cpu"].lstrip("/") if "cpu" in self._paths else self._whole

    @property
    def _whole(self) -> Path:
        return GROUPS / self._paths[""].lstrip("/")

    def cpu_m(self) -> int | None:
        """The CPU cap in millicores; None: none."""
        if "cpu" in self._paths:
            quota = (self.folder / "cpu.cfs_quota_us").read_text().strip()
            period = (self.folder / "cpu.cfs_period_us").read_text()
        else:
            quota, period = (self.folder / "cpu.max").read_text().split()
        return None if quota in {"-1", "max"} else int(quota) * 1000 // int(period)

    def cpu_weight(self) -> float:
        """The weight for CPU, relative to that which a group has by default."""
        if "cpu" in self._paths:
            return int((self.folder / "cpu.shares").read_text()) / 1024
        return int((self.folder / "cpu.weight").read_text()) / 100

    def memory_mib(self) -> int | None:
        """The memory cap; None: none that is less than a tebibyte."""
        if "memory" in self._paths:
            text = (GROUPS / "memory" / self._paths["memory"].lstrip("/") / "memory.limit_in_bytes").read_text()
        else:
            text = (self._whole / "memory.max").read_text()
        return None if text.strip() == "max" or int(text) >= 1 << 40 else int(text) >> 20
