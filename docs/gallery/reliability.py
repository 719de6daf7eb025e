"""# Reliability before and after a temperature

A network that has learned its training rows by heart is surer than it is right. A temperature,
fitted on half of the rows that it has not seen, mends that; the other half shows it. See
[calibration](../calibration.md) and [scaling](../scaling.md).
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from softmargin.calibration import TemperatureScaling, calibration_metrics, reliability_diagrams

torch.manual_seed(0)
images, classes = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
x, y, fresh_x, fresh_y = images[:200], classes[:200], images[200:], classes[200:]

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
noisy = torch.where(torch.rand(200) < 0.2, torch.randint(0, 10, (200,)), y)  # some wrong labels
for _ in range(150):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), noisy).backward()
    optimizer.step()

with torch.no_grad():
    logits = model(fresh_x)
half = len(logits) // 2
scaling = TemperatureScaling().fit(logits[:half], fresh_y[:half])
before = calibration_metrics(logits[half:], fresh_y[half:], from_logits=True)
after = calibration_metrics(scaling(logits[half:]), fresh_y[half:], from_logits=True)
print(f"temperature {scaling.temperature:.2f}")
print(f"NLL {before.nll:.3f} → {after.nll:.3f}, accuracy {before.accuracy:.3f} as it was")

figure = plt.figure(figsize=(7, 4.2), layout="constrained")
reliability_diagrams(figure, [before.bins, after.bins], ["as trained", "with a temperature"])
plt.show()
