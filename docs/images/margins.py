"""Draw ``margins.png``: what margins do to the target's logit, and what β does to the gradient."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from softmargin import heads, theory

HEADS = {
    "cosine": heads.CosineHead(2, 2, scale=1.0),
    "CosFace, m = 0.35": heads.CosFaceHead(2, 2, scale=1.0, margin=0.35),
    "ArcFace, m = 0.5": heads.ArcFaceHead(2, 2, scale=1.0, margin=0.5),
    "L-Softmax, k = 2": heads.LSoftmaxHead(2, 2, k=2, anneal=0.0),
    "ArcGrad": heads.ArcGradHead(2, 2, scale=1.0),
}


def target_logit(head: heads.Head, angle: torch.Tensor) -> torch.Tensor:
    """Return the target's logit in training for unit features at an angle to its weight."""
    with torch.no_grad():
        head.weight.copy_(torch.eye(2))
        features = torch.stack([angle.cos(), angle.sin()], 1)
        return head(features, torch.zeros(len(angle), dtype=torch.long))[:, 0]


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
angle = torch.linspace(0, torch.pi, 200)
for name, head in HEADS.items():
    left.plot(angle.rad2deg(), target_logit(head, angle), label=name)
left.set(xlabel="angle to the target's weight, degrees", ylabel="target's logit in training, s = 1")
left.legend(fontsize="small")
p = np.linspace(0, 1, 200)
for beta in (0.05, 0.2, 1, 5, 20):
    right.plot(p, theory.gradient_magnitude(p, beta), label=f"β = {beta}")
right.set(xlabel="confidence in the target, p", ylabel="pull on the target's logit")
right.legend(fontsize="small")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
