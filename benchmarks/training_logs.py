"""Accuracy of the log reader on real logs beside Katib's default filter, and its speed beside ``grep``.

    python benchmarks/training_logs.py [--data FOLDER] [--table FILE] [--megabytes N]

Two tables go to standard output (and, as Markdown, to ``--table``): for every log of ``FOLDER/logs`` the true number of
training losses (a plain count, ``tests/unit/training_logs/truth.py``), those found, and those that Kubeflow Katib's
default filter finds; then MB per second of processor time, where a log is repeated to N megabytes, beside
``grep -c loss`` of the same file in the same run. Exits with 1 where precision or recall of a file is below 0.999.
"""

import argparse
import importlib.util
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from steepest.training_logs import LogReader

REPOSITORY = Path(__file__).parents[1]

KATIB_FILTER = re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)")
"""Katib's ``DefaultFilter`` (kubeflow/katib 33c8ff4e, pkg/metricscollector/v1beta1/common/const.go)."""

SPEED_FILES = (
    "gluon/gluoncv/logs/segmentation/fcn_resnet50_voc.log",
    "gluon/gluoncv/logs/segmentation/icnet_resnet50_citys.log",
    "megatron/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off.out",
    "megatron/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on.out",
    "megatron/gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out",
)
CHUNK_BYTES = 1 << 20
LEAST_PRECISION = LEAST_RECALL = 0.999


def main() -> int:
    """Measures, prints, and returns whether precision and recall are within their bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("STEEPEST_DATA", REPOSITORY.parent / "shared" / "data")
    )
    parser.add_argument("--table", type=Path, help="also write the tables here, as Markdown")
    parser.add_argument("--megabytes", type=int, default=64, help="size that a log is repeated to for its speed")
    options = parser.parse_args()
    logs = Path(options.data) / "logs"
    if not logs.is_dir():
        print(f"skipped: no logs in {logs}; give --data or STEEPEST_DATA")
        return 0
    counts, good = accuracy(logs)
    speeds = speed(logs, options.megabytes)
    if options.table:
        options.table.write_text(f"{counts}\n\n{speeds}\n", encoding="utf-8")
    return 0 if good else 1


def accuracy(logs: Path) -> tuple[str, bool]:
    """The table of all files, and whether every one is within its bounds."""
    count_true = load_truth()
    rows, good = [], True
    for path in sorted(path for path in logs.rglob("*") if path.is_file()):
        name = path.relative_to(logs)
        true = Counter(count_true(path, name.parts[0]))
        found, format_name = find(path)
        right = (true & found).total()
        recall = right / true.total() if true else 1.0
        precision = right / found.total() if found else 1.0
        good = good and recall >= LEAST_RECALL and precision >= LEAST_PRECISION
        rows.append(
            (str(name), format_name, true.total(), found.total(), f"{precision:.4f}", f"{recall:.4f}", katib(path))
        )
    return table(("log", "format", "true", "found", "precision", "recall", "Katib"), rows), good


def load_truth() -> Callable[[Path, str], list[tuple[int, float]]]:
    """The plain count, whose code is beside the tests."""
    path = REPOSITORY / "tests" / "unit" / "training_logs" / "truth.py"
    spec = importlib.util.spec_from_file_location("truth", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count: Callable[[Path, str], list[tuple[int, float]]] = module.training_losses
    return count


def find(path: Path) -> tuple[Counter[tuple[int, float]], str]:
    """What the reader finds: training losses as (line, value), and the format."""
    reader = LogReader()
    records = reader.feed(path.read_bytes()) + reader.close()
    return Counter((one.line, one.value) for one in records if one.split == "train"), reader.format or "–"


def katib(path: Path) -> int:
    """How many training losses Katib's default filter yields, for the objective metric ``loss``."""
    text = path.read_bytes().decode("utf-8", "replace")
    return sum(
        name == "loss" and bool(value) for line in text.split("\n") for name, value, *_ in KATIB_FILTER.findall(line)
    )


def speed(logs: Path, megabytes: int) -> str:
    """MB/s of the reader and of ``grep`` on the same bytes, each the best of three, and the memory that was needed."""
    rows = []
    for name in SPEED_FILES:
        data = (logs / name).read_bytes()
        with tempfile.NamedTemporaryFile(suffix=".log") as file:
            size = file.write(data * max(1, megabytes * 1_000_000 // len(data)))
            file.flush()
            records, seconds = min((read_all(Path(file.name)) for _ in range(3)), key=lambda result: result[1])
            grep = min(grep_all(file.name) for _ in range(3))
        rows.append((name, f"{size / 1e6:.0f}", records, f"{size / 1e6 / seconds:.0f}", f"{size / 1e6 / grep:.0f}"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return f"{table(('log', 'MB', 'records', 'reader MB/s', 'grep -c loss MB/s'), rows)}\n\npeak memory: {peak} MB"


def read_all(path: Path) -> tuple[int, float]:
    """Records found, and seconds of processor time."""
    began = time.process_time()
    reader, records = LogReader(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            records += len(reader.feed(chunk))
    records += len(reader.close())
    return records, time.process_time() - began


def grep_all(path: str) -> float:
    """Seconds of processor time that ``grep -c loss`` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["grep", "-c", "loss", path], capture_output=True, check=False)  # to /dev/null it would stop early
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return max(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1e-3)


def table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """A Markdown table, which is also printed."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    text = "\n".join(lines)
    print(text, end="\n\n")
    return text


if __name__ == "__main__":
    sys.exit(main())
