"""Keras with a line an epoch."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

rng = np.random.default_rng(0)
inputs, labels = rng.normal(size=(1600, 128)).astype("float32"), rng.integers(0, 10, 1600)
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(inputs, labels, epochs=240, batch_size=16, validation_split=0.2, verbose=2)
