"""Classifiers with scikit-learn's interface, on top of :func:`softmargin.training.train_together`.

``MarginClassifier`` is a linear or fully connected classifier with any loss and head here;
``MarginClassifierCV`` chooses β, and whether a temperature is needed, by cross-validation;
``TableModel`` does so for a table as it is, and is saved as a folder.
"""

from softmargin.estimators.classifier import MarginClassifier
from softmargin.estimators.search import MarginClassifierCV
from softmargin.estimators.tables import TableModel

__all__ = ["MarginClassifier", "MarginClassifierCV", "TableModel"]
