"""The style of PyTorch's ImageNet example: meters, and a line each ten batches."""

import argparse
import time

import torch
from torch import nn


class AverageMeter:
    """The newest value, and the mean."""

    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        """Take in a value."""
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=12, type=int)
parser.add_argument("-b", "--batch-size", default=32, type=int)
args = parser.parse_args()

torch.manual_seed(0)
images, labels = torch.randn(args.batch_size, 3, 32, 32), torch.randint(0, 10, (args.batch_size,))
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
)
model(images)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
batches = 120
width = len(str(batches))
for epoch in range(args.epochs):
    batch_time, losses = AverageMeter("Time", ":6.3f"), AverageMeter("Loss", ":.4e")
    end = time.time()
    for i in range(batches):
        loss = nn.functional.cross_entropy(model(images), labels)
        losses.update(loss.item(), args.batch_size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        if i % 10 == 0:
            print(f"Epoch: [{epoch}][{i + 1:{width}d}/{batches}]\t{batch_time}\t{losses}")
    with torch.no_grad():
        validation = nn.functional.cross_entropy(model(images), labels)
    print(f" * Loss {validation.item():.3f}")
