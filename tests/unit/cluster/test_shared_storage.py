"""The storage that all simulated nodes share: who transfers at the same time shares its bandwidth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steepest_lab.simulated.storage import SharedStorage, Transfer
from steepest_lab.simulated.timeline import VirtualTimeline

ROUNDED_S = 1e-3


class Volume:
    """A storage of 100 MiB a second, and when each transfer was over."""

    def __init__(self) -> None:
        self.timeline = VirtualTimeline()
        self.storage = SharedStorage(self.timeline, 100.0)
        self.ended_s: dict[str, float] = {}
        self.begun: dict[str, Transfer] = {}

    def begin(self, name: str, mib: float, *, at_s: float = 0.0, most_mib_s: float = 1e6) -> None:
        """Begin a transfer at a moment."""

        def begin() -> None:
            self.begun[name] = self.storage.transfer(mib, most_mib_s, lambda: self._end(name))

        self.timeline.call_at(at_s, begin)

    def _end(self, name: str) -> None:
        self.ended_s[name] = self.timeline.now_s()

    def run(self) -> dict[str, float]:
        """When each was over, in seconds."""
        while self.timeline.step():
            pass
        return self.ended_s


def test_two_share_it_equally() -> None:
    """The shorter one takes twice as long as alone; then the longer one has all of it."""
    volume = Volume()
    volume.begin("long", 300)
    volume.begin("short", 100)

    assert volume.run() == {"short": 2.0, "long": 4.0}


def test_one_that_comes_later_slows_the_other_from_then_on() -> None:
    """Half of the first is over by then."""
    volume = Volume()
    volume.begin("first", 200)
    volume.begin("second", 50, at_s=1.0)

    assert volume.run() == {"second": 2.0, "first": 2.5}


def test_nothing_is_faster_than_its_node() -> None:
    """Where its part would be more, it takes as long as its node needs."""
    volume = Volume()
    volume.begin("slow", 100, most_mib_s=20)

    assert volume.run() == {"slow": 5.0}


def test_what_is_given_up_leaves_its_part_to_the_others() -> None:
    """And is never over; that it is given up twice changes nothing."""
    volume = Volume()
    volume.begin("kept", 200)
    volume.begin("gone", 1_000)

    def give_up() -> None:
        volume.begun["gone"].cancel()
        volume.begun["gone"].cancel()

    volume.timeline.call_at(2.0, give_up)

    assert volume.run() == {"kept": 3.0}


@given(
    drawn=st.lists(
        st.tuples(st.floats(0.0, 1e5, allow_subnormal=False), st.floats(0.0, 100.0), st.floats(0.1, 1e4)),
        min_size=1,
        max_size=8,
    )
)
def test_all_are_over_and_none_sooner_than_it_could(drawn: list[tuple[float, float, float]]) -> None:
    """Each takes at least as long as alone; together they take at least what the bandwidth needs, and not for ever."""
    volume = Volume()
    for number, (mib, at_s, most_mib_s) in enumerate(drawn):
        volume.begin(str(number), mib, at_s=at_s, most_mib_s=most_mib_s)
    ended_s = volume.run()

    assert len(ended_s) == len(drawn)
    for number, (mib, at_s, most_mib_s) in enumerate(drawn):
        assert ended_s[str(number)] >= at_s + mib / min(most_mib_s, 100.0) - ROUNDED_S
    last_s = max(ended_s.values())
    assert last_s - min(at_s for _, at_s, _ in drawn) >= sum(mib for mib, *_ in drawn) / 100.0 - ROUNDED_S
    slowest_mib_s = min(most_mib_s for *_, most_mib_s in drawn)
    assert last_s <= 100.0 + sum(mib for mib, *_ in drawn) / min(slowest_mib_s, 100.0 / len(drawn)) + ROUNDED_S
