"""A plain loop over steps."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(4096, 256)
targets = inputs.sum(1, keepdim=True) / 16
total = 1500

for step in range(1, total + 1):
    chosen = torch.randint(0, 4096, (256,))
    loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(f"step {step}/{total} loss {loss.item():.4f}", flush=True)
