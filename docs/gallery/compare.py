"""# Which of two models is better?

`softmargin compare` takes predictions of the same rows, and says how much the models differ, with
intervals from row to row. Here they are two classifiers of scikit-learn's interface.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from softmargin.calibration import ReliabilityDisplay
from softmargin.cli import main
from softmargin.estimators import MarginClassifier

x, y = load_digits(return_X_y=True)
x, fresh_x, y, fresh_y = train_test_split(x, y, train_size=300, random_state=0, stratify=y)

figure, row = plt.subplots(1, 2, figsize=(8, 4.4), layout="constrained")
for axes, beta in zip(row, (1.0, 10.0), strict=True):
    model = MarginClassifier(beta=beta, epochs=60, random_state=0).fit(x, y)
    probabilities = model.predict_proba(fresh_x)
    ReliabilityDisplay.from_predictions(fresh_y, probabilities, ax=axes, name=f"β = {beta:g}")
    np.savez(f"beta{beta:g}.npz", probs=probabilities, labels=fresh_y)

main(["compare", "beta1.npz", "beta10.npz"])
plt.show()
