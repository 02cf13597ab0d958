"""tf_cnn_benchmarks in MPI jobs: step, speed and total loss, separated by tabs; every rank prints the line.

It owns that line: the loss has no name where the header was cut off.
"""

import re

from steepest.training_logs.formats import Format
from steepest.training_logs.statement import ProgressNumber, Statement, metric_of
from steepest.training_logs.syntax.shape import NUMBER
from steepest.training_logs.syntax.words import role_of

_LINE = re.compile(rf"(\d{{1,15}})\timages/sec: {{1,4}}{NUMBER} \+/- {NUMBER} \(jitter = {NUMBER}\)\t({NUMBER})(?!\S)")


def _read(text: str, line: int, end: int, _note: dict[str, str]) -> Statement | None:
    found = _LINE.match(text)
    if found is None:
        return None
    loss = metric_of(role_of("loss"), found[2], None, line, end)
    return Statement(line, end, progress=[ProgressNumber("stated", "stated", int(found[1]))], metrics=[loss])


FORMAT = Format(
    name="tf-cnn-benchmarks",
    shape="70\timages/sec: 46.7 +/- 0.4 (jitter = 1.8)\t8.734",
    needle="images/sec: ",
    read=_read,
)
