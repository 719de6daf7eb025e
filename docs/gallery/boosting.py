"""# β in gradient boosting

The β loss as an objective of LightGBM: every tree makes the model surer, and β decides how fast.
With few trees a small β is ahead, with many a large one. The script needs the extra `boosting`;
[the page on boosting](../integrations/boosting.md) has three tables, and says where a temperature
does better.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from softmargin.integrations.boosting import GradientDecayLGBMClassifier

x, y = load_digits(n_class=4, return_X_y=True)
x, fresh_x, y, fresh_y = train_test_split(x, y, train_size=150, random_state=0, stratify=y)

trees = (10, 20, 40, 80, 160)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for beta in (0.2, 1.0, 5.0, 20.0):
    scores = []
    for number in trees:
        model = GradientDecayLGBMClassifier(
            beta=beta, n_estimators=number, num_leaves=7, n_jobs=1, verbose=-1
        )
        scores.append(log_loss(fresh_y, model.fit(x, y).predict_proba(fresh_x)))
    axes.plot(trees, scores, marker="o", label=f"β = {beta:g}")
axes.set(xlabel="trees", ylabel="NLL on fresh rows", yscale="log")
axes.legend()
plt.show()
