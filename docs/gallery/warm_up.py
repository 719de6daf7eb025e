"""# A warm-up of β

A small β keeps pulling at samples that are right already. A warm-up starts with it and ends with
cross-entropy, in two more lines of the loop; see [schedules](../schedules.md). Whether that pays is
a question for held-out data.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from softmargin import GradientDecayLoss
from softmargin.calibration import calibration_metrics
from softmargin.schedules import Geometric

images, classes = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
x, y, fresh_x, fresh_y = images[:300], classes[:300], images[300:], classes[300:]
steps = 300


def trained(start, end):
    """Train a small network; return its confidence in the training rows, and its test metrics."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    criterion = GradientDecayLoss()
    warm_up = Geometric(criterion, "beta", start=start, end=end, steps=steps // 2)
    confidence = []
    for _ in range(steps):
        rows = torch.randint(0, len(x), (50,))
        optimizer.zero_grad()
        criterion(model(x[rows]), y[rows]).backward()
        optimizer.step()
        warm_up.step()
        with torch.no_grad():
            target_probability = model(x).softmax(1).gather(1, y[:, None])
        confidence.append(target_probability.mean().item())
    with torch.no_grad():
        return confidence, calibration_metrics(model(fresh_x), fresh_y, from_logits=True)


figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for start, end in ((1.0, 1.0), (0.01, 0.01), (0.01, 1.0)):
    label = f"β = {start:g}" if start == end else f"β from {start:g} to {end:g}"
    confidence, result = trained(start, end)
    axes.plot(confidence, label=label)
    print(f"{label:18}  NLL {result.nll:.3f}  confidence − accuracy {result.overconfidence:+.3f}")
axes.set(xlabel="step", ylabel="mean confidence in the training rows' classes")
axes.legend()
plt.show()
