"""A recurrent network that reads sequences of various lengths: of each digit only its first rows, four to eight."""

from __future__ import annotations

from steepest_lab.jobs import harness
from steepest_lab.jobs.rnn import RowReader

SHORTEST = 4


class DynamicRnn(RowReader):
    """One recurrence, from the first row to the last one that is there."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, (1,), shortest=SHORTEST)


if __name__ == "__main__":
    harness.main("dynamic_rnn", DynamicRnn, steps=900, batches=8, measure="cross-entropy")
