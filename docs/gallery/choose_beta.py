"""# β chosen on a table

`MarginClassifierCV` trains all folds, values of β and seeds at once, and scores each on rows that
it has not seen, as it is and with a temperature. See
[β chosen on your own data](../estimators.md).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from softmargin.estimators import MarginClassifierCV

x, y = load_wine(return_X_y=True)
search = MarginClassifierCV(betas=(0.1, 0.3, 1.0, 3.0, 10.0), random_state=0).fit(x, y)
print(search.best_params_)

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
search.plot(axes)
plt.show()
