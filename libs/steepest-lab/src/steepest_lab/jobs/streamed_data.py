"""The data sets of the job ``streamed``: any number of handwritten digits, enlarged and with noise.

A record is a label and the grey values of an image, a byte each. The features' projection is a matrix of single-precision
numbers, pixels × features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from steepest_lab.jobs.datasets import Array, Labels, digits

SIDE = 32
PIXELS = SIDE * SIDE
RECORD_BYTES = 1 + PIXELS
CLASSES = 10
_AT_ONCE = 1024
_ENLARGED = 4


def enlarged_digits() -> tuple[Array, Labels]:
    """The 1797 digits as images of 32 × 32 grey values from 0 to 1, in rows of 1024; and their labels."""
    images, labels = digits()
    square = images.reshape(-1, SIDE // _ENLARGED, SIDE // _ENLARGED)
    larger = square.repeat(_ENLARGED, axis=1).repeat(_ENLARGED, axis=2)
    return larger.reshape(-1, PIXELS), labels


def write_images(path: Path, count: int, seed: int = 0) -> None:
    """Writes a data set of ``count`` images."""
    images, labels = enlarged_digits()
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        for first in range(0, count, _AT_ONCE):
            drawn = rng.integers(len(images), size=min(_AT_ONCE, count - first))
            noisy = images[drawn] + np.float32(0.1) * rng.standard_normal((len(drawn), PIXELS), np.float32)
            records = np.empty((len(drawn), RECORD_BYTES), np.uint8)
            records[:, 0] = labels[drawn]
            records[:, 1:] = (255 * noisy.clip(0, 1)).astype(np.uint8)
            file.write(records.tobytes())


def write_features(path: Path, features: int, seed: int = 0) -> None:
    """Writes a random projection to ``features`` features."""
    rng = np.random.default_rng(seed)
    projection = rng.standard_normal((PIXELS, features), np.float32) / np.float32(PIXELS**0.5)
    path.write_bytes(projection.tobytes())
