"""A bidirectional recurrent network (Schuster, Paliwal 1997): two read a digit's rows, one from each end."""

from __future__ import annotations

from steepest_lab.jobs import harness
from steepest_lab.jobs.rnn import RowReader


class BidirectionalRnn(RowReader):
    """Two recurrences, from the first row to the last and back."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, (1, -1))


if __name__ == "__main__":
    harness.main("birnn", BidirectionalRnn, steps=900, batches=5, measure="cross-entropy")
