"""Handwritten digits with the Hugging Face Trainer and a small vision transformer made from a config: no download."""

import argparse
import tempfile

import torch
from sklearn.datasets import load_digits
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

from steepest_sdk.huggingface import SteepestCallback


def main() -> None:
    """Trains, and prints how well it has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    epochs = parser.parse_args().epochs

    set_seed(1)
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    data = [{"pixel_values": image, "labels": int(label)} for image, label in zip(images, digits.target, strict=True)]
    config = ViTConfig(
        image_size=8, patch_size=2, num_channels=1, num_labels=10,
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, hidden_dropout_prob=0.1,
    )  # fmt: skip
    model = ViTForImageClassification(config)

    steepest = SteepestCallback()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(), num_train_epochs=epochs, per_device_train_batch_size=32,
            per_device_eval_batch_size=256, learning_rate=0.002, logging_steps=1, eval_strategy="epoch",
            save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True, seed=1,
        ),
        train_dataset=data[:1500],
        eval_dataset=data[1500:],
        callbacks=[steepest],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=steepest.checkpoint)
    print(f"final loss {trainer.evaluate()['eval_loss']!r}")


if __name__ == "__main__":
    main()
