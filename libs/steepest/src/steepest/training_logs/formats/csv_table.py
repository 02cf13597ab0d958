"""Tables with a header: Ultralytics' and Lightning's CSV files, DVCLive's TSV.

It owns recognising the header. A column is read if its name is a loss or a held-out quality; empty cells are skipped.
"""

from steepest.training_logs.format import Context, Format, LogLine, Reading, RunPosition, at_step, readings
from steepest.training_logs.syntax.metric_names import read_name
from steepest.training_logs.syntax.numbers import to_epoch, to_number, to_step

_MIN_COLUMNS = 2
_MAX_COLUMNS = 512


def _read(line: LogLine, context: Context) -> list[Reading] | None:
    delimiter = b"\t" if b"\t" in line.raw and b"," not in line.raw else b","
    cells = [cell.strip().strip(b'"') for cell in line.raw.split(delimiter, _MAX_COLUMNS)]
    if len(cells) < _MIN_COLUMNS:
        return None
    if _is_header(cells):
        context.columns = [cell.decode("utf-8", "replace") for cell in cells]
        return []
    if len(cells) != len(context.columns):
        return None
    values = {
        name: cell
        for name, cell in zip(context.columns, cells, strict=True)
        if to_number(cell.decode("ascii", "replace")) is not None
    }
    if not values:
        return None
    return readings(((name.encode(), cell) for name, cell in values.items()), _place(values, context), context)


def _is_header(cells: list[bytes]) -> bool:
    names = [read_name(cell) for cell in cells]
    words = all(cell[:1].isalpha() and b" " not in cell and b"=" not in cell and b":" not in cell for cell in cells)
    return words and any(name.is_loss for name in names) and any(name.place for name in names)


def _place(values: dict[str, bytes], context: Context) -> RunPosition:
    places = {place: cell for name, cell in values.items() if (place := read_name(name.encode()).place)}
    epoch = to_epoch(places.get("epoch"))
    if (step := to_step(places.get("step"))) is not None:
        return at_step(context, step, epoch)
    return RunPosition() if epoch is None else RunPosition(None, epoch, (epoch,), coarse=True)


FORMAT = Format(
    name="csv",
    shape="epoch,time,train/box_loss,val/box_loss\n1,12.5,1.92,1.71",
    needles=(b",", b"\t"),
    signs=(b"loss",),
    read=_read,
)
