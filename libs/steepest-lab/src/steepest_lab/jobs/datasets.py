"""Reads the real data: files in the scikit-learn package, without importing the package, which is slow."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
"""Numbers of a model or a batch; in single precision where speed matters."""

Labels = NDArray[np.integer[Any]]
"""A class, or a letter's index in the alphabet, for each example."""


def digits() -> tuple[Array, Labels]:
    """Handwritten digits: images, 1797 × 64 grey values from 0 to 1, and labels, 1797 from 0 to 9.

    Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (Alpaydin, Kaynak 1998).
    """
    table = _table("data/digits.csv.gz", delimiter=",")
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.intp)


def diabetes() -> tuple[Array, Array]:
    """442 patients: ten measures each, 442 × 10, standardised, and the progression of the disease, 442.

    Efron, Hastie, Johnstone, Tibshirani, "Least Angle Regression" (2004), table 1.
    """
    measures = _table("data/diabetes_data_raw.csv.gz", delimiter=" ")
    standardised = (measures - measures.mean(axis=0)) / measures.std(axis=0)
    return standardised.astype(np.float32), _table("data/diabetes_target.csv.gz", delimiter=" ").astype(np.float32)


def descriptions() -> tuple[str, Labels]:
    """About 40,000 letters of English, the descriptions of the data sets: the alphabet, and each letter's index in it."""
    files = sorted((_home() / "descr").glob("*.rst"))
    text = "\n".join(file.read_text("utf-8") for file in files)
    alphabet = "".join(sorted(set(text)))
    indices = {letter: index for index, letter in enumerate(alphabet)}
    return alphabet, np.array([indices[letter] for letter in text], dtype=np.intp)


def _table(name: str, *, delimiter: str) -> NDArray[np.float64]:
    with gzip.open(_home() / name, "rt", encoding="ascii") as file:
        return np.loadtxt(file, delimiter=delimiter)


def _home() -> Path:
    package = find_spec("sklearn")
    if package is None or package.submodule_search_locations is None:
        raise FileNotFoundError("the demo jobs train on scikit-learn's data: install steepest-lab")
    return Path(package.submodule_search_locations[0]) / "datasets"
