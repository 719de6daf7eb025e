"""# What β does to the gradient

Every sample pulls its target's logit up with force G = (1 − p) / (1 + (β − 1)p), where p is the
probability of its target. The curves are [closed forms](../theory.md); the points are the gradients
that the loss gives for random logits.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from softmargin import theory
from softmargin.functional import gradient_decay_loss

torch.manual_seed(0)
logits = (3 * torch.randn(40, 10)).requires_grad_()
target = torch.randint(0, 10, (40,))
measured = logits.softmax(1).gather(1, target[:, None]).detach()

p = np.linspace(0, 1, 200)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for beta in (20, 5, 1, 0.2, 0.05):
    (line,) = axes.plot(p, theory.gradient_magnitude(p, beta), label=f"β = {beta}")
    loss = gradient_decay_loss(logits, target, beta=beta, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, logits)
    pull = -gradient.gather(1, target[:, None])
    axes.plot(measured, pull, "o", markersize=3, color=line.get_color())
axes.set(xlabel="confidence in the target, p", ylabel="pull on the target's logit")
axes.legend()
plt.show()
