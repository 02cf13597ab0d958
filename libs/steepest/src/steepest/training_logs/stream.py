"""Statements into records: split, phase, place and names of each reading, decided over the stream.

It owns the order in which evidence decides: the name itself, then labels on its line, then headers, then training. It must
never know the text of a line.
"""

from steepest.training_logs.ledger import Position, Reading, Scope, begin_again, take_over, to_records
from steepest.training_logs.memory import (
    MOST_STEPS,
    Head,
    LineOutcome,
    Process,
    ReadAt,
    StreamState,
    by_number,
    mark,
    note_step,
)
from steepest.training_logs.phases import end_phase, label
from steepest.training_logs.place import position_of
from steepest.training_logs.records import LossRecord, Split
from steepest.training_logs.selection import Reported, lane_of, summed, with_objective, without_parts
from steepest.training_logs.statement import NamedNumber, Statement
from steepest.training_logs.syntax.words import SUM_OF_PARTS, plain

GENERAL = "general"

HELD_LOSSES, HELD_STATEMENTS = 24, 400
"""What is held back at the start of a log, until the numbers have shown what they are."""

_MOST_SHAPES = 512
_FEW = 2
"""Readings of an unknown word before it counts as a loss."""


_LENGTHS = ("epoch", "total", "epochs")
_STEPS = ("stated", "step", "iter", "global", "lead")


class Stream:
    """Turns the statements of all processes into records.

    Args:
        state: owned by the caller, and updated.
        processes: the state of each process, likewise.
        wanted: the metric that the job named, in plain spelling.
    """

    def __init__(self, state: StreamState, processes: dict[str, Process], wanted: str | None) -> None:
        self.state, self._processes, self._wanted = state, processes, wanted
        self.records: list[LossRecord] = []
        self.outcome: LineOutcome | None = None

    def take(self, source: str, one: Statement) -> None:
        """Takes a statement; its records come immediately, or when enough was seen."""
        state, self.outcome = self.state, None
        if self._wanted is not None and self._wanted != SUM_OF_PARTS:
            self._keep_wanted(one)
        if one.source is None and source:
            one.source = source
        for metric in one.metrics if self.state.unknown else ():
            if metric.name in self.state.unknown:
                metric.kind, metric.whole = "loss", True
        process = self._processes[source]
        process.progression.observe(one)
        if state.settled or one.label:
            self._process(process, one)
            return
        state.queue.append((source, one))
        self._note_steps(one)
        state.statements += 1
        state.losses += any(metric.kind == "loss" for metric in one.metrics)
        processes = max(len(self._processes) - 1, 1)
        if state.losses >= HELD_LOSSES * min(processes, 4) or state.statements >= HELD_STATEMENTS:
            state.settled = True
            self.release()

    def release(self) -> None:
        """Reads what was held back."""
        queue, self.state.queue = self.state.queue, []
        if not any(one.has_readings() for _, one in queue):
            self._learn_word([one for _, one in queue if one.places()])
        for _, one in queue:
            has_place = one.has("step", "iter", "global", "batch", "beside", "front")
            for metric in one.metrics:
                self.state.placed[metric.name] = self.state.placed.get(metric.name, 0) + (1 if has_place else -1)
            for metric in one.metrics if one.source is not None else ():
                lead = self.state.leads.setdefault(metric.name, one.source or "")
                self.state.leads[metric.name] = min(lead, one.source or "", key=by_number)
        for source, one in queue:
            self.outcome = None
            self._process(self._processes[source], one)

    def rename(self, before: str, name: str) -> None:
        """A process whose first lines were read before its prefix was known gets its name."""
        self._processes[name], self._processes[before] = self._processes[before], Process()
        self.state.queue = [(name if source == before else source, one) for source, one in self.state.queue]
        for lane in self.state.lanes.values():
            lane.lead = name if lane.lead == before else lane.lead
            if before in lane.sources:
                lane.sources[name] = lane.sources.pop(before)

    def _learn_word(self, queue: list[Statement]) -> None:
        """A word of another language is the loss if it is the only number with a fraction on lines that have a place."""
        odd = [[metric for metric in one.metrics if "." in metric.text and not metric.name.isascii()] for one in queue]
        names = {metric.name for metrics in odd for metric in metrics}
        if len(names) == 1 and sum(map(len, odd)) >= _FEW and not self.state.unknown:
            self.state.unknown = sorted(names)
            for metrics in odd:
                for metric in metrics:
                    metric.kind, metric.whole = "loss", True

    def end(self) -> None:
        """Reads what is held back of bars."""
        self.release()
        for lane in self.state.lanes.values():
            if lane.ahead:
                self.records += take_over(lane, lane.lead or "")
        for process in self._processes.values():
            self._flush(process)

    @property
    def is_holding(self) -> bool:
        """Whether something is held back."""
        return bool(self.state.queue) or any(one.pending is not None for one in self._processes.values())

    def _keep_wanted(self, one: Statement) -> None:
        wanted = self._wanted or ""
        for metric in one.metrics:
            name = plain(metric.name)
            is_it = wanted == name or wanted in (f"{name}_epoch", f"{name}_mean")
            metric.kind = "loss" if is_it else "skip"
            metric.whole = metric.whole or is_it

    def _note_steps(self, one: Statement) -> tuple[list[int], list[int], str] | None:
        """Notices estimates: a training and a held-out loss at a step that also has a plain training loss (nanoGPT)."""
        state = self.state
        losses = [metric for metric in one.metrics if metric.kind == "loss"]
        at = next((number for number in one.progress if number.kind in _STEPS), None)
        if state.estimates or at is None:
            return None
        if len(losses) == 1 and losses[0].split is None and one.split != "eval" and losses[0].whole:
            noted = (state.plain_steps, state.paired_steps, at.key)
        elif len(losses) == 2 and {metric.split for metric in losses} == {"train", "eval"}:
            noted = (state.paired_steps, state.plain_steps, at.key)
        else:
            return None
        state.estimates = not note_step(noted, at.value)
        return noted

    def _process(self, process: Process, one: Statement) -> None:
        readable = one.has_readings()
        noted = self._note_steps(one) if self.state.settled and readable else None
        if one.phase:
            process.phase = None if one.phase == "train" else one.phase
        places = one.places()
        if process.phase == "summary" and places and readable:
            process.phase = None
        for number in one.progress:
            if number.kind == "epochs":
                self.state.run.epochs = number.value or self.state.run.epochs
            elif number.kind == "total" and number.value and not readable:
                self.state.run.total = number.value
        if one.is_bar:
            self._take_bar(process, one, readable=readable)
        elif readable:
            self._flush(process)
            self._read(process, one)
        elif places and not (one.quote or one.label):
            self._take_head(process, one)
        process.progression.evaluates = process.progression.evaluates and process.phase == "eval"
        if self.outcome is not None:
            self.outcome = self.outcome._replace(noted=noted)

    # Bars.

    def _take_bar(self, process: Process, one: Statement, *, readable: bool) -> None:
        number = next((number for number in one.progress if number.kind == "bar"), None)
        if number is not None:
            if readable:
                process.progression.redraw(number.value, number.total)
            else:
                used = process.bar is not None and process.bar[:2] == (number.value, number.total) and process.bar[2]
                process.bar = (number.value, number.total, used)
        if not readable:
            return
        one.turn = process.progression.turns
        pending, place, values = process.pending, mark(one), one.values()
        is_trained = one.split != "eval"
        if pending is not None and pending.turn == one.turn and mark(pending) == place and pending.split == one.split:
            before = pending.values()
            process.redrawn += before != values and before == (process.flushed or [""])[: len(before)]
            process.repainted = process.repainted or (before != values and is_trained)
            process.pending, process.drawn = one, process.drawn + 1
            return
        self._flush(process)
        if self.state.settled and is_trained and process.shown and not process.repainted:
            if process.shown[0] != place or process.shown[1:] == values:
                process.shown = [place, *values]
                self._read(process, one)
                return
            process.repainted = True
        process.pending, process.drawn = one, 1

    def _flush(self, process: Process) -> None:
        """Reads the last drawing at a place; a single one with the values of the place before is not its own."""
        one, process.pending = process.pending, None
        if one is None:
            return
        if process.drawn == 1 and process.redrawn and one.values() == process.flushed:
            return
        process.flushed = one.values()
        process.shown = [mark(one), *process.flushed] if one.split != "eval" else process.shown
        self._read(process, one)
        self.outcome = None  # it was that of an earlier line

    # Heads.

    def _take_head(self, process: Process, one: Statement) -> None:
        if not one.has("epoch", "step", "iter", "global", "batch"):
            return
        if sum(metric.kind == "other" for metric in one.metrics) > 2:
            return
        at = position_of(one, self.state.run, process.progression)
        process.head = Head(at.step, at.order, at.coarse, at.epoch, at.total, one.split)
        if at.epoch is not None and one.has("epoch") and not one.has("global"):
            process.progression.headed = True
            process.progression.epoch = int(at.epoch)
        if one.has("epoch") and not one.phase and process.phase == "eval":
            process.phase = None
        if self.state.settled and at.order is not None and not one.phase:
            self.outcome = LineOutcome(
                process, one.source or "", one.shape, at, [], False, self.state.run, False, head=process.head
            )

    # Readings.

    def _read(self, process: Process, one: Statement) -> None:
        metrics = [metric for metric in one.metrics if metric.kind in ("loss", "quality")]
        metrics = with_objective(metrics, one, self.state.lanes)
        if not metrics or one.is_best or process.phase == "summary":
            return
        labelled = one.split
        label(process, one, metrics, self.state.run.per_epoch)
        splits = {metric.split for metric in metrics}
        if (one.split == "eval" or splits == {"eval"}) and "train" not in splits:
            one.progress = [number for number in one.progress if number.kind in (*_STEPS, *_LENGTHS)]
            for number in one.progress:
                number.total = None if number.kind == "epoch" else number.total
        places = one.places()
        if not one.shape and len(places) > 1 and places[0].total is not None and places[0].kind in _STEPS:
            one.progress = [places[0]]  # a block's first line is its header
        at = position_of(one, self.state.run, process.progression)
        has_place = at.step is not None or at.order is not None
        end_phase(process, one, metrics, at, has_place=has_place)
        default: Split = one.split or ("eval" if process.phase == "eval" else "train")
        if process.head is not None and process.head.split == "eval" and not has_place and one.split is None:
            default = "eval"
        at, has_place, inherited = self._placed(process, one, metrics, at, default=default, has_place=has_place)
        found = self._selected(one, metrics, default, at)
        trained = any(each.split == "train" for each in found)
        if trained and one.shape not in process.shapes:
            process.shapes = [*process.shapes[-_MOST_SHAPES:], one.shape]
        self._emit(process, one, found, at, placed=has_place, inherited=inherited, trained=trained, labelled=labelled)
        if found:
            process.evaluated = None if trained else one.line
        is_mute = default == "train" and not found and one.has("epoch", *_STEPS[1:4]) and has_place and not inherited
        if is_mute and self.state.settled and not one.label and at.order is not None:
            self.outcome = LineOutcome(process, one.source or "", one.shape, at, [], False, self.state.run, False)
        if is_mute or (trained and (has_place or inherited)):
            self._moved(process, one, at)

    def _moved(self, process: Process, one: Statement, at: Position) -> None:
        process.step = at.step if at.step is not None else process.step
        process.epoch = at.epoch if at.epoch is not None else process.epoch
        process.order = at.order if at.order is not None else process.order
        process.batches = process.batches or (one.has("epoch") and one.has("batch", "beside"))

    def _placed(
        self,
        process: Process,
        one: Statement,
        metrics: list[NamedNumber],
        at: Position,
        *,
        default: Split,
        has_place: bool,
    ) -> tuple[Position, bool, bool]:
        """The place of a reading, whether it has one, and whether that is a header's."""
        held_out = any(metric.split == "eval" for metric in metrics)
        run = self.state.run
        if not has_place and process.bar is not None and one.quote and default == "train" and not held_out:
            value, total, used = process.bar
            if (
                process.step is not None
                and value <= process.step
                and (one.epoch or 0) > (process.epoch or one.epoch or 0)
            ):
                value, used = process.step + 1, False  # fast steps: the bar was not drawn again since
            if not used and value > 0:
                at, has_place = Position(value, (value,), epoch=one.epoch, total=total), True
                process.bar = (*process.bar[:2], True)
        if not has_place and one.epoch is not None and run.total and run.epochs and not held_out:
            step = round(one.epoch * run.total / run.epochs)
            at, has_place = Position(step, (step,), epoch=one.epoch, total=run.total), True
        if one.quote == '"' and at.step is None and at.coarse and isinstance(at.epoch, int):
            at = at._replace(step=at.epoch)
        if one.epoch is not None:  # a line's own epoch, also where a header announced another one
            at = at._replace(epoch=one.epoch)
        head = process.head
        if has_place or head is None or (process.loose and not head.coarse):
            return at, has_place, False
        names = [metric.name for metric in metrics]
        if not head.coarse and head.order is not None and any(name in head.names for name in names):
            process.loose = True
            return at, False, False
        head.names = [*head.names, *names][-MOST_STEPS:]
        coarse = head.coarse or head.step is None
        return (
            at._replace(step=head.step, order=head.order, coarse=coarse, epoch=head.epoch, total=head.total),
            True,
            True,
        )

    def _selected(self, one: Statement, metrics: list[NamedNumber], default: Split, at: Position) -> list[Reported]:
        """The metrics that are reported, with their splits; parts and means of a loss beside it are not."""
        losses = [metric for metric in metrics if metric.kind == "loss"]
        if len(losses) > 1 and any("c" not in metric.trait for metric in losses):
            metrics = [metric for metric in metrics if metric.kind != "loss" or "c" not in metric.trait]
        held = "h" in metrics[0].trait or (not losses and one.is_starred)
        found: dict[tuple[str, str], Reported] = {}
        for metric in metrics:
            split = metric.split or ("eval" if metric.kind == "quality" and held and not losses else default)
            if metric.kind == "loss" or split == "eval":
                found.setdefault((split, metric.name), Reported(metric, split, metric.name))
        kept = list(found.values())
        if self._wanted == SUM_OF_PARTS:
            return summed(kept)
        splits = [each.split for each in kept if each.metric.kind == "loss"]
        is_pair = sorted(splits) == ["eval", "train"] and one.has("step", "iter", "global") and at.step is not None
        if self.state.estimates and is_pair and not (one.is_bar or one.quote):
            return [each._replace(split="eval") for each in kept]
        return kept if self._wanted is not None else without_parts(kept, is_bar=one.is_bar)

    def _emit(
        self,
        process: Process,
        one: Statement,
        found: list[Reported],
        at: Position,
        *,
        placed: bool,
        inherited: bool,
        trained: bool,
        labelled: Split | None,
    ) -> None:
        names, place = {(each.split, each.name.lower()) for each in found}, at
        at = at._replace(epochs=self.state.run.epochs, at_ms=one.at_ms)
        if one.label:  # a format's line states its own lengths, or none
            lengths = {number.kind: number.value for number in one.progress}
            at = at._replace(total=lengths.get("total"), epochs=lengths.get("epochs"))
        index = 0
        readings: list[ReadAt] = []
        rows: list[tuple[Reported, str, str, str, int]] = []
        for each in found:
            lane = lane_of(each.name)
            lane = each.name.lower() if (each.split, lane) in names else lane
            rows.append((each, each.name, lane, each.metric.text, each.metric.at))
        for each, name, lane, *_ in rows[:]:
            metric = each.metric
            if metric.spread is not None and metric.kind == "loss":
                rows.append((each, f"{name}_mean", f"{lane}_mean", metric.spread, metric.spread_at))
        for each, name, lane, text, number in rows:
            place, scope = self._place_of(process, one, each, at, inherited=inherited, trained=trained)
            if not self._is_wanted(name, scope):
                continue
            if each.split == "train" and place.order is None and self.state.placed.get(each.metric.name, 0) > 0:
                continue
            reading = Reading(name, float(text), each.split, place, scope, lane, one.shape, text)
            if each.split == "train" and process.evaluated is not None and one.is_complete():
                begin_again(self.state.lanes.get(f"train {lane}"), reading)
            where = (each.metric.line, each.metric.end, index)
            lead = self.state.leads.get(each.metric.name)
            records = to_records(self.state.lanes, reading, where, one.label or GENERAL, one.source or "", lead)
            self.records += records
            index += bool(records)
            is_mean = scope == "epoch" and self._is_mean_apart(each.split, lane)
            if len(records) == 1 and scope != "display" and not is_mean and number >= 0:
                is_free = place.order is None and at.order is not None
                series = self.state.lanes[f"{each.split} {lane}"]
                readings.append(ReadAt(series, name, each.split, number, is_free, scope == "epoch"))
        of_head = (
            inherited
            and not trained
            and place.order is None
            and all((each.metric.split or labelled) == "eval" for each in found)
        )
        is_plain = (placed and not inherited) or of_head or (at.order is None and not inherited)
        settled = self.state.settled or one.label
        if settled and is_plain and readings and len(readings) == len(rows):
            at = place if not trained else at
            self.outcome = LineOutcome(
                process, one.source or "", one.shape, at, readings, trained, self.state.run, of_head, label=one.label
            )

    def _is_mean_apart(self, split: Split, lane: str) -> bool:
        """Whether the mean over an epoch is a metric of its own, beside that of a step."""
        known = self.state.lanes.get(f"{split} {lane}")
        return known is not None and known.stepwise

    def _is_wanted(self, name: str, scope: Scope) -> bool:
        if self._wanted in (None, SUM_OF_PARTS):
            return True
        names = (name, f"{name}_epoch") if scope == "epoch" else (name,)
        return any(plain(each) == self._wanted for each in names)

    def _place_of(
        self, process: Process, one: Statement, each: Reported, at: Position, *, inherited: bool, trained: bool
    ) -> tuple[Position, Scope]:
        """The place of one reading: an evaluation without its own has that of training, and counts when it changes."""
        if each.split == "train":
            is_mean = at.coarse and (not inherited or (at.order is not None and at.step is None))
            is_mean = is_mean or (process.batches and {"epoch", "global"} == {number.kind for number in one.progress})
            return at, "epoch" if is_mean else "step"
        if process.phase == "eval" and each.metric.split is None and (at.step or 0) < (process.step or 0):
            at = Position(epoch=at.epoch, at_ms=at.at_ms)  # a step of the evaluation's own loop
        if at.order is None or inherited or at.coarse:
            step = at.step if at.step is not None else process.step
            epoch = at.epoch if at.epoch is not None else process.epoch
            order = at.order if not at.coarse and at.order is not None and not trained else None
            at = Position(step, order, order is not None and at.coarse, epoch, at_ms=at.at_ms)
            return at, "display" if trained and one.is_bar else "step"
        return at, "display" if trained else "step"
