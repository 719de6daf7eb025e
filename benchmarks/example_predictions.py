"""Make the predictions that come with the package: ``softmargin calibrate --example`` reads them.

``python -m benchmarks.example_predictions > src/softmargin/calibration/example.csv``

A network is trained too long on 200 of scikit-learn's handwritten digits, and predicts 600 others.
"""

from __future__ import annotations

import csv
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

TRAINED, TESTED, STEPS = 200, 600, 400


def main() -> None:
    """Train, and print a table of logits with labels."""
    torch.manual_seed(0)
    pictures, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels))
    x, y = torch.tensor(pictures, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]
    x += 0.35 * torch.randn(x.shape)  # noise, or there would be too few mistakes
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:TRAINED]), y[:TRAINED]).backward()
        optimizer.step()
    rows = slice(TRAINED, TRAINED + TESTED)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*(f"logit_{i}" for i in range(10)), "label"])
    for logits, label in zip(model(x[rows]).tolist(), y[rows].tolist(), strict=True):
        writer.writerow([*(f"{z:.2f}" for z in logits), label])


if __name__ == "__main__":
    main()
