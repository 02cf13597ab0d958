"""The data position and the state of a plain PyTorch loop: a resumed loop sees the batches that were left."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.frameworks.conftest import needs_frameworks

torch = pytest.importorskip("torch", reason="PyTorch is not installed here: run `make test-frameworks`")

from steepest_sdk.pytorch import FILE, ResumableLoader, TrainingState  # noqa: E402

pytestmark = needs_frameworks

DATA = list(range(23))
EPOCHS = 3


def loader(**options: Any) -> ResumableLoader:
    """A loader of 23 items in batches of 5."""
    return ResumableLoader(DATA, **({"batch_size": 5, "seed": 7} | options))


def seen(of: ResumableLoader, epochs: int = EPOCHS) -> list[list[list[int]]]:
    """The batches of each epoch that is left."""
    return [[batch.tolist() for batch in of] for _ in range(of.epoch, epochs)]


def test_every_item_comes_once_an_epoch_in_another_order() -> None:
    """An epoch is a permutation of the data; the next one is another, and the same seed gives the same ones."""
    epochs = seen(loader())
    flat = [[item for batch in epoch for item in batch] for epoch in epochs]
    assert [sorted(epoch) for epoch in flat] == [DATA] * EPOCHS
    assert flat[0] != flat[1] != flat[2]
    assert seen(loader()) == epochs
    assert seen(loader(seed=8)) != epochs


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"shuffle": False}, {"num_workers": 2}])
@pytest.mark.parametrize("taken", range(6))
def test_resumed_loader_gives_what_is_left(taken: int, options: dict[str, Any]) -> None:
    """Left in the second epoch after any number of batches, another loader continues with the next one."""
    whole = seen(loader(**options))
    first = loader(**options)
    assert [batch.tolist() for batch in first] == whole[0]
    batches = iter(first)
    for _ in range(min(taken, len(whole[1]))):
        next(batches)
    resumed = loader(**options)
    resumed.load_state_dict(first.state_dict())
    assert seen(resumed) == [whole[1][taken:], whole[2]] if taken else [whole[1], whole[2]]


def test_pass_that_was_left_early_counts_as_an_epoch() -> None:
    """A loop that breaks off begins its next pass with the next epoch's order, not with the rest of this one."""
    broken = loader()
    next(iter(broken))
    assert [batch.tolist() for batch in broken] == seen(loader())[1]


def test_loader_leaves_the_global_generator_alone() -> None:
    """A model's dropout draws the same numbers whether or not an epoch was begun again."""
    before = torch.get_rng_state()
    seen(loader())
    assert torch.equal(torch.get_rng_state(), before)


def test_state_and_generators_continue_from_the_file(tmp_path: Path) -> None:
    """Parameters, optimiser, schedule and the generators of Python, NumPy and PyTorch are what they were."""

    def parts() -> dict[str, Any]:
        model = torch.nn.Linear(2, 1)
        optimiser = torch.optim.Adam(model.parameters())
        return {
            "model": model,
            "optimiser": optimiser,
            "schedule": torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=9),
            "loader": loader(),
        }

    def train(state: dict[str, Any]) -> list[float]:
        state["optimiser"].zero_grad()
        state["model"](torch.ones(2)).backward()
        state["optimiser"].step()
        state["schedule"].step()
        numbers = [random.random(), float(np.random.random()), torch.rand(1).item()]
        return [*numbers, *(value for tensor in state["model"].parameters() for value in tensor.flatten().tolist())]

    saved = parts()
    train(saved)
    TrainingState(**saved).save(tmp_path)
    next_step = train(saved)

    loaded = parts()
    TrainingState(**loaded).load(tmp_path)
    assert train(loaded) == next_step


def test_state_of_other_parts_is_refused(tmp_path: Path) -> None:
    """A checkpoint of a script that has changed since names what it holds and what is missing."""
    model = torch.nn.Linear(2, 1)
    TrainingState(model=model).save(tmp_path)
    with pytest.raises(ValueError, match=r"has \['model'\]; this training has \['model', 'schedule'\]"):
        TrainingState(model=model, schedule=model).load(tmp_path)


def test_file_with_foreign_code_is_not_run(tmp_path: Path) -> None:
    """A checkpoint that would call something when it is unpickled is refused, and nothing is called."""

    class Hostile:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "called",))

    torch.save({"parts": {}, "random": Hostile()}, tmp_path / FILE)
    with pytest.raises(pickle.UnpicklingError):
        TrainingState().load(tmp_path)
    assert not (tmp_path / "called").exists()
