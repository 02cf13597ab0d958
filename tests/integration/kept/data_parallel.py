"""A data-parallel training that knows nothing of Steepest: each rank sums its gradient with the others' over TCP.

It is run by its path in each replica of a gang, and ends with the digest of its weights.
"""

import hashlib
import os
import socket
import sys
import time

import numpy as np

steps, pause = int(sys.argv[1]), float(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
peers = []
if rank == 0:
    server = socket.create_server(address)
    peers = [server.accept()[0].makefile("rwb") for _ in range(world - 1)]
else:
    while not peers:
        try:
            peers = [socket.create_connection(address).makefile("rwb")]
        except ConnectionRefusedError:
            time.sleep(0.01)


def summed(gradient: np.ndarray) -> np.ndarray:
    """The sum over all ranks, the same bytes on each; 128 KiB a rank, so that much of it is under way at any moment."""
    size = gradient.nbytes
    if rank:
        peers[0].write(gradient.tobytes())
        peers[0].flush()
        return np.frombuffer(peers[0].read(size)).reshape(gradient.shape)
    parts = sorted(peer.read(size) for peer in peers)
    total = sum((np.frombuffer(part).reshape(gradient.shape) for part in parts), gradient)
    for peer in peers:
        peer.write(total.tobytes())
        peer.flush()
    return total


rng = np.random.default_rng(rank)
inputs = rng.normal(size=(512, 256))
weights = np.random.default_rng(7).normal(size=(256, 64)) / 16
targets = np.sin(inputs @ np.random.default_rng(8).normal(size=(256, 64)) / 16)
for step in range(1, steps + 1):
    batch = rng.integers(0, len(inputs), size=32)
    error = inputs[batch] @ weights - targets[batch]
    weights = weights - 0.01 * summed(inputs[batch].T @ error / 32) / world
    print(f"step {step}/{steps} loss {float((error * error).mean()):.9f}", flush=True)
    time.sleep(pause)
print("digest", hashlib.sha256(weights.tobytes()).hexdigest(), flush=True)
