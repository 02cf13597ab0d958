"""Speed of the log reader beside ``grep``: real logs, each repeated to some megabytes.

Megabytes per second of processor time, beside ``grep -c loss`` of the same file in the same run, each the best of three.
Whether the reader finds the right losses is a test: ``tests/unit/training_logs/test_real_logs.py``.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.frame.bench import cpu_s, data, each, figure, options

from steepest.training_logs import LogReader

FILES = (
    "gluon/gluoncv/logs/segmentation/fcn_resnet50_voc.log",
    "gluon/gluoncv/logs/segmentation/icnet_resnet50_citys.log",
    "megatron/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off.out",
    "megatron/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on.out",
    "megatron/gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out",
)
CHUNK_BYTES = 1 << 20
TRIES = 3


def read_all(path: Path) -> int:
    """How many records the reader finds."""
    reader, records = LogReader(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            records += len(reader.feed(chunk))
    return records + len(reader.close())


def grep_s(path: Path) -> float:
    """Seconds of processor time that ``grep -c loss`` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["grep", "-c", "loss", path], capture_output=True, check=False)  # to /dev/null it would stop early
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return max(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1e-3)


def main() -> None:
    """Measure each log, and the memory that was needed for all."""
    asked = options(__doc__, megabytes=(1, 16, 64), files=(1, len(FILES), len(FILES)))
    logs = data("logs") / "logs"
    for name in each("logs", FILES[: asked.files]):
        content = (logs / name).read_bytes()
        with tempfile.NamedTemporaryFile(suffix=".log") as file:
            megabytes = file.write(content * max(1, asked.megabytes * 1_000_000 // len(content))) / 1e6
            file.flush()
            path = Path(file.name)
            reader = min(cpu_s(partial(read_all, path)) for _ in range(TRIES))
            grep = min(grep_s(path) for _ in range(TRIES))
            rates = {"reader_mb_s": round(megabytes / reader), "grep_mb_s": round(megabytes / grep)}
            figure(Path(name).name, mb=round(megabytes), records=read_all(path), **rates)
    figure("peak memory", mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


if __name__ == "__main__":
    main()
