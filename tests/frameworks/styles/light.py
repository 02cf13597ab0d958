"""Lightning with its own bar."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10))

    def training_step(self, batch, index):
        """The loss of a batch."""
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


torch.manual_seed(0)
data = TensorDataset(torch.randn(16000, 512), torch.randint(0, 10, (16000,)))
trainer = lightning.Trainer(max_epochs=24, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(Net(), DataLoader(data, batch_size=100))
