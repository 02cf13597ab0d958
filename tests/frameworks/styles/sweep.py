"""One variant of a sweep: hyperparameters from the command line, a header, and a table's rows."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--hidden", type=int, default=512)
args = parser.parse_args()
print(args)

torch.manual_seed(0)
inputs, targets = torch.randn(4096, 128), torch.randn(4096, 1)
model = nn.Sequential(nn.Linear(128, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    total = 0.0
    for batch, target in zip(inputs.split(8), targets.split(8), strict=True):
        loss = nn.functional.mse_loss(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"lr={args.lr} hidden={args.hidden} epoch={epoch} loss={total / 512:.5f}")
