"""The logging module; how many epochs there are stands in an earlier sentence."""

import logging

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
log = logging.getLogger("train")

torch.manual_seed(0)
epochs = 60
images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
model = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
)
model(images)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
log.info("model has %d parameters", sum(p.numel() for p in model.parameters()))
log.info("Training for %d epochs on %s", epochs, "cpu")
for epoch in range(epochs):
    total = 0.0
    for _ in range(100):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    log.info("epoch=%d train_loss=%.4f lr=%.1e", epoch, total / 100, 1e-3)
log.info("done")
