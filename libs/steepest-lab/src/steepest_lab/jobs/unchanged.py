"""A training that knows nothing of Steepest: a perceptron in NumPy, which saves nothing and prints its loss.

It is run by its path, and ends with the digest of its weights: a run that was moved must end with that of one that was not.
"""

import argparse
import hashlib
import time

import numpy as np

parser = argparse.ArgumentParser(description="A training that knows nothing of Steepest.")
parser.add_argument("--steps", type=int, default=500, help="Number of steps.")
parser.add_argument("--batches", type=int, default=1, help="Batches a step.")
parser.add_argument("--rate", type=float, default=0.02, help="The learning rate.")
parser.add_argument("--pause", type=float, default=0.0, help="Seconds between two steps.")
parser.add_argument("--seed", type=int, default=0, help="Draws data, weights and batches.")
options = parser.parse_args()

rng = np.random.default_rng(options.seed)
inputs = rng.normal(size=(2048, 64))
targets = np.sin(inputs @ rng.normal(size=(64, 8)) / 8)
first, second = rng.normal(size=(64, 128)) / 8, rng.normal(size=(128, 8)) / 11
for step in range(1, options.steps + 1):
    losses = []
    for _ in range(options.batches):
        batch = rng.integers(0, len(inputs), size=128)
        hidden = np.tanh(inputs[batch] @ first)
        error = hidden @ second - targets[batch]
        slope = inputs[batch].T @ ((error @ second.T) * (1 - hidden * hidden)) / len(batch)
        second -= options.rate * (hidden.T @ error / len(batch))
        first -= options.rate * slope
        losses.append(float((error * error).mean()))
    print(f"step {step}/{options.steps} loss {sum(losses) / len(losses):.9f}", flush=True)
    time.sleep(options.pause)
print("digest", hashlib.sha256(first.tobytes() + second.tobytes()).hexdigest(), flush=True)
