"""# Margin heads in two dimensions

Features of two numbers can be looked at. The same network is trained with three
[heads](../heads.md) on three kinds of digits. Lines are the weights of the classes. An angle is all
that counts for the cosine heads, and a margin makes classes narrower as seen from the middle.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from softmargin.diagnostics import angle_statistics
from softmargin.heads import ArcFaceHead, CosineHead, LinearHead

x, y = (torch.tensor(part) for part in load_digits(n_class=3, return_X_y=True))
x = x.float() / 16
heads = {
    "linear": lambda: LinearHead(2, 3),
    "cosine, s = 10": lambda: CosineHead(2, 3, scale=10.0),
    "ArcFace, s = 10, m = 0.5": lambda: ArcFaceHead(2, 3, scale=10.0, margin=0.5),
}

figure, row = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for axes, (name, make) in zip(row, heads.items(), strict=True):
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    head = make()
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(head(body(x), y), y).backward()
        optimizer.step()
    with torch.no_grad():
        features, weight = body(x), torch.nn.functional.normalize(head.weight)
    reach = features.norm(dim=1).max()
    for number in range(3):
        own = features[y == number]
        axes.plot(own[:, 0], own[:, 1], ".", markersize=3, color=f"C{number}")
        end = reach * weight[number]
        axes.plot([0, end[0]], [0, end[1]], color=f"C{number}")
    axes.set(title=name, xticks=[], yticks=[])
    axes.set_aspect("equal", adjustable="datalim")
    found = angle_statistics(features, y, head.weight.detach()).degrees()
    print(f"{name}: centres of classes are {found.wc_intra:.0f}° from their weights")
plt.show()
