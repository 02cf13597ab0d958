"""The Trainer of Hugging Face, with its bar and its dictionaries."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Texts(Dataset):
    """Random words, whose first one says the class."""

    def __len__(self):
        return 1200

    def __getitem__(self, index):
        words = torch.randint(0, 1000, (32,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": int(words[0] > 500)}


config = BertConfig(vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=20,
        per_device_train_batch_size=8,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Texts()).train()
