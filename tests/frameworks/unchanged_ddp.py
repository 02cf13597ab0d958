"""A data-parallel training in PyTorch that knows nothing of Steepest, and ends with the digest of its weights."""

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float)
options = parser.parse_args()
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(options.steps):
    inputs, labels = torch.randn(64, 64), torch.randint(0, 10, (64,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}", flush=True)
    time.sleep(options.pause)
weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
print("digest", hashlib.sha256(weights).hexdigest(), flush=True)
dist.destroy_process_group()
