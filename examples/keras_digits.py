"""Handwritten digits in Keras 3 on JAX (or what KERAS_BACKEND names), stopped and resumed between epochs."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from sklearn.datasets import load_digits

from steepest_sdk.keras import SteepestCallback


def main() -> None:
    """Trains, and prints how well it has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    epochs = parser.parse_args().epochs

    keras.utils.set_random_seed(1)
    digits = load_digits()
    images = (digits.images / 16).astype("float32")[..., None]
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.001),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

    steepest = SteepestCallback()
    model.fit(
        images[:1500], digits.target[:1500], validation_data=(images[1500:], digits.target[1500:]),
        epochs=epochs, batch_size=32, verbose=2, initial_epoch=steepest.initial_epoch, callbacks=[steepest],
    )  # fmt: skip
    loss, _ = model.evaluate(images[1500:], digits.target[1500:], verbose=0)
    print(f"final loss {loss!r}")


if __name__ == "__main__":
    main()
