"""Data-parallel training, started by torchrun; only the first process prints, and it does not say how long it trains."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(2_400):
    inputs, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 20 == 0:
        print(f"[rank {rank}] step {step} | loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
