"""A bar of tqdm an epoch, with the loss behind it."""

import torch
from torch import nn
from tqdm import tqdm

torch.manual_seed(0)
model = nn.LSTM(64, 128, batch_first=True)
head = nn.Linear(128, 64)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
epochs = 30

for epoch in range(epochs):
    progress = tqdm(range(100), desc=f"Epoch {epoch + 1}/{epochs}")
    for _ in progress:
        batch = torch.randn(32, 32, 64)
        hidden, _ = model(batch)
        loss = nn.functional.mse_loss(head(hidden), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.set_postfix(loss=f"{loss.item():.3f}")
