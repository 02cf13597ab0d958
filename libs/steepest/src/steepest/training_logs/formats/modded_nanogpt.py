"""modded-nanogpt: ``step:1375/1530 val_loss:3.3088``; the log starts with the script's own source.

It owns that line, whose digits distinguish it from the source that prints it.
"""

import re

from steepest.training_logs.format import Context, Format, LogLine, Reading, at_step, readings
from steepest.training_logs.syntax.numbers import NUMBER

_LINE = re.compile(rb"^(?:s:|step:)(\d{1,12})/(\d{1,12}) (?=(?:train_|val_)?loss:)")
_PAIRS = re.compile(rb"(\w{1,30}):(" + NUMBER + rb")")


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    match = _LINE.match(line.text)
    if match is None:
        return None
    return readings(
        _PAIRS.findall(line.text[match.end() :]), at_step(context, int(match[1]), total=int(match[2])), context
    )


FORMAT = Format(
    name="modded-nanogpt",
    shape="step:1375/1530 val_loss:3.3088 train_time:236241ms step_avg:173.07ms",
    needles=(b"loss:",),
    read=_read,
)
