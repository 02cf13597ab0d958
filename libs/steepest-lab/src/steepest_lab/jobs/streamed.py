"""A training on a data set that it streams from a storage server once every epoch, alone or as one of several processes.

Softmax regression on random features (Rahimi, Recht 2007, "Random features for large-scale kernel machines"). The features'
fixed projection is read at each start, the images in every epoch: none of it is kept on disk. After each epoch the training
evaluates itself, which reads nothing. It can be stopped at the end of an epoch only.

The processes of a gang divide each batch and the data set, and sum their gradients.
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.all_reduce import AllReduce, Vector, connected
from steepest_lab.jobs.datasets import Array, Labels
from steepest_lab.jobs.optimisers import Momentum
from steepest_lab.jobs.softmax import cross_entropy
from steepest_lab.jobs.streamed_data import CLASSES, PIXELS, RECORD_BYTES, enlarged_digits

LOST_STATUS = 1
_EVALUATED_AT_ONCE = 256
_OK = (200, 206)
_REPORT_EVERY_STEPS = 10
_TIMEOUT_S = 600.0

_BUFFER_BYTES = 1 << 17
"""Read ahead of the training. The kernel's own choice is several megabytes: a large part of an epoch as short as these."""


@dataclass(frozen=True)
class StreamedOptions:
    """Options of the training: data, model and length.

    Attributes:
        data: Path of the images on the server.
        features: Path of the projection on the server.
        batch: Images a step, of all processes together.
        work: How often each batch is drawn with other noise.
        evaluations: Passes over the evaluation's images after each epoch.
    """

    data: str
    features: str
    epochs: int
    batch: int
    work: int
    evaluations: int
    seed: int


class DataServer:
    """The storage server.

    Args:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
        self._path = parts.path

    def size(self, path: str) -> int:
        """The length of a file in bytes.

        Raises:
            OSError: The server does not have it.
        """
        response = self._ask("HEAD", path)
        response.read()
        return int(response.headers["Content-Length"])

    def whole(self, path: str) -> bytes:
        """All of a file.

        Raises:
            OSError: The server does not have it.
        """
        return self._ask("GET", path).read()

    def pieces(self, path: str, first: int, count: int, length: int) -> Iterator[bytes]:
        """``count`` pieces of a file, each of ``length`` bytes, from byte ``first`` on.

        Raises:
            OSError: The server does not send them all.
        """
        response = self._ask("GET", path, Range=f"bytes={first}-{first + count * length - 1}")
        for _ in range(count):
            piece = response.read(length)
            if len(piece) < length:
                raise OSError(f"{path} is shorter than it was")
            yield piece

    def _ask(self, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
        if self._connection.sock is None:
            self._connect()
        self._connection.request(method, f"{self._path}/{path}", headers=headers)
        response = self._connection.getresponse()
        if response.status not in _OK:
            raise OSError(f"{path}: {response.status} {response.reason}")
        return response

    def _connect(self) -> None:
        self._connection.connect()
        connected: socket.socket = self._connection.sock
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)


class FeatureModel:
    """p(label | image) = softmax(W · max(0, image · P) + b), P fixed."""

    def __init__(self, projection: Array) -> None:
        self._projection = projection
        features = projection.shape[1]
        self._parameters: dict[str, Array] = {
            "weights": np.zeros((features, CLASSES), np.float32),
            "bias": np.zeros(CLASSES, np.float32),
        }
        self._optimiser = Momentum(self._parameters, rate=0.01)
        self.state = self._parameters | self._optimiser.state

    def gradient(self, images: Array, labels: Labels) -> Vector:
        """The sum of the gradients over the images, and at the end that of the losses, in one vector."""
        features, scores = self._scores(images)
        loss, by_scores = cross_entropy(scores, labels)
        parts = [(features.T @ by_scores).ravel(), by_scores.sum(axis=0), np.array([loss])]
        return np.concatenate(parts, dtype=np.float64) * len(labels)

    def update(self, total: Vector, count: int) -> float:
        """Updates the parameters with the mean over ``count`` images; returns their mean loss."""
        mean = total / count
        weights = self._parameters["weights"]
        self._optimiser.update(
            {
                "weights": mean[: weights.size].reshape(weights.shape).astype(np.float32),
                "bias": mean[weights.size : -1].astype(np.float32),
            }
        )
        return float(mean[-1])

    def correct(self, images: Array, labels: Labels) -> int:
        """How many images it labels correctly."""
        return int((self._scores(images)[1].argmax(axis=1) == labels).sum())

    def _scores(self, images: Array) -> tuple[Array, Array]:
        features = np.maximum(images @ self._projection, 0)
        return features, features @ self._parameters["weights"] + self._parameters["bias"]


class StreamedTraining:
    """The part of one process.

    Args:
        gang: Sums over the processes of its gang.
    """

    def __init__(
        self, model: FeatureModel, server: DataServer, given: StreamedOptions, run: steepest_sdk.Run, gang: AllReduce
    ):
        self._model = model
        self._server = server
        self._given = given
        self._run = run
        self._gang = gang
        self._share = given.batch // run.world_size
        self._steps = server.size(given.data) // (RECORD_BYTES * self._share * run.world_size)
        self._test = enlarged_digits() if run.is_chief else None

    def epoch(self, number: int) -> None:
        """Streams its part of the data set once, and trains a step with each batch."""
        mean = 0.0
        first = self._run.rank * self._steps * self._share * RECORD_BYTES
        pieces = self._server.pieces(self._given.data, first, self._steps, self._share * RECORD_BYTES)
        for index, piece in enumerate(pieces, 1):
            step = (number - 1) * self._steps + index
            mean += (self._step(step, piece) - mean) / index
            if index == 1 or index % _REPORT_EVERY_STEPS == 0:
                self._run.record(step, loss=mean)
        self._run.record(number * self._steps, loss=mean)
        if self._test is not None:
            harness.say(f"streamed: epoch {number} of {self._given.epochs}, nats {mean:.4f}, {self._accuracy():.1%}\n")

    def _step(self, step: int, piece: bytes) -> float:
        records = np.frombuffer(piece, np.uint8).reshape(-1, RECORD_BYTES)
        images, labels = records[:, 1:].astype(np.float32) / 255, records[:, 0].astype(np.intp)
        rng = np.random.default_rng([self._given.seed, step, self._run.rank])
        total = self._model.gradient(_noisy(images, rng), labels)
        for _ in range(self._given.work - 1):
            total += self._model.gradient(_noisy(images, rng), labels)
        count = self._share * self._run.world_size * self._given.work
        return self._model.update(self._gang.sum(step, total), count)

    def _accuracy(self) -> float:
        images, labels = self._test or enlarged_digits()
        rng = np.random.default_rng(self._given.seed)
        correct = 0
        for _ in range(self._given.evaluations):
            for first in range(0, len(images), _EVALUATED_AT_ONCE):
                some = slice(first, first + _EVALUATED_AT_ONCE)
                correct += self._model.correct(_noisy(images[some], rng), labels[some])
        return correct / (len(images) * max(1, self._given.evaluations))


def _noisy(images: Array, rng: np.random.Generator) -> Array:
    return images + np.float32(0.2) * rng.standard_normal(images.shape, np.float32)


def options() -> StreamedOptions:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m steepest_lab.jobs.streamed")
    parser.add_argument("data", help="path of the images on the storage server")
    parser.add_argument("--features", default="features.bin", help="path of the features' projection there")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the data set (default 6)")
    parser.add_argument("--batch", type=int, default=64, help="images a step, of all processes together (default 64)")
    parser.add_argument("--work", type=int, default=1, help="how often each batch is drawn (default 1)")
    parser.add_argument("--evaluations", type=int, default=1, help="passes over the test after an epoch (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same losses (default 0)")
    return StreamedOptions(**vars(parser.parse_args()))


def main() -> None:
    """Trains; it can be stopped after each epoch."""
    given = options()
    url = os.environ.get("STEEPEST_DATA_URL")
    if not url:
        sys.exit("STEEPEST_DATA_URL names no storage server")
    server = DataServer(url)
    model = FeatureModel(np.frombuffer(server.whole(given.features), np.float32).reshape(PIXELS, -1))
    run = steepest_sdk.start(save=_save(model), load=_load(model))
    try:
        with connected(run.rank, run.peers, while_waiting=run.keep_stop_signal) as gang:
            training = StreamedTraining(model, server, given, run, gang)
            for number in run.epochs(given.epochs):
                training.epoch(number)
    except ConnectionError as error:
        harness.say(f"streamed: rank {run.rank} of {run.world_size} goes on from its checkpoint: {error}\n")
        raise SystemExit(LOST_STATUS) from error


def _save(model: FeatureModel) -> steepest_sdk.run.Save:
    return lambda folder: np.savez(folder / "state.npz", **model.state)  # type: ignore[arg-type]


def _load(model: FeatureModel) -> steepest_sdk.run.Load:
    def restore(folder: Path) -> None:
        with np.load(folder / "state.npz", allow_pickle=False) as saved:
            for name, array in model.state.items():
                array[...] = saved[name]

    return restore


if __name__ == "__main__":
    main()
