"""# β that calibrates itself

`CalibratedBeta` looks at held-out rows while the network trains, and raises β as long as it is
surer of them than it is right. See [schedules](../schedules.md).

A small gap stays here, since confidence that was reached is not taken back: β runs to its bound,
which all but ends learning, and some accuracy is the price.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from softmargin import GradientDecayLoss
from softmargin.calibration import calibration_metrics
from softmargin.schedules import CalibratedBeta

images, classes = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
x, held_out_x, fresh_x = images.split([200, 700, 897])
y, held_out_y, fresh_y = classes.split([200, 700, 897])


def trained(steered):
    """Train for 1200 steps; return β and over-confidence on the way, and the metrics after."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    criterion = GradientDecayLoss()
    controller = CalibratedBeta(criterion)
    path = []
    for _ in range(1200):
        rows = torch.randint(0, len(x), (50,))
        optimizer.zero_grad()
        criterion(model(x[rows]), y[rows]).backward()
        optimizer.step()
        if steered:  # four times per epoch, from the start
            with torch.no_grad():
                error = controller.update(model(held_out_x), held_out_y)
            path.append((criterion.beta.item(), error))
    with torch.no_grad():
        return path, calibration_metrics(model(fresh_x), fresh_y, from_logits=True)


_, plain = trained(steered=False)
path, steered = trained(steered=True)
for name, result in (("β = 1", plain), ("steered", steered)):
    print(f"{name:8} accuracy {result.accuracy:.3f}  NLL {result.nll:.3f}  ECE {result.ece:.3f}")

figure, (above, below) = plt.subplots(2, 1, figsize=(6, 4.5), layout="constrained", sharex=True)
above.plot([beta for beta, _ in path])
above.set(ylabel="β", yscale="log")
below.plot([float(error) for _, error in path], color="C1")
below.axhline(0, color="gray", linewidth=0.8)
below.set(xlabel="step", ylabel="confidence − accuracy,\nheld out")
plt.show()
