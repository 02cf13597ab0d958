"""A plain loop over epochs, as in most tutorials."""

import torch
from torch import nn

torch.manual_seed(0)
images, labels = torch.randn(2048, 256), torch.randint(0, 10, (2048,))
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
num_epochs = 100

for epoch in range(num_epochs):
    running_loss = 0.0
    for begin in range(0, len(images), 8):
        batch, target = images[begin : begin + 8], labels[begin : begin + 8]
        optimizer.zero_grad()
        loss = criterion(model(batch), target)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f"Epoch [{epoch + 1}/{num_epochs}], Train Loss: {running_loss / 256:.2f}")
