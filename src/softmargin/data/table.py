"""Data sets that come without a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from softmargin.data.sampling import stratified_folds
from softmargin.data.sets import Dataset, Provenance, Split


@dataclass(frozen=True, repr=False)
class Table(Dataset):
    """A data set that comes without a split: ``whole``, and seeded stratified folds of it.

    ``train`` and ``test`` are the first of ten folds.

    Example:
        >>> from softmargin.data import load_table
        >>> iris = load_table("iris")
        >>> len(iris.whole), [len(test) for _, test in iris.folds(4)]
        (150, [38, 38, 37, 37])
        >>> iris.without("sepal length (cm)").whole.x.shape
        torch.Size([150, 3])
    """

    whole: Split = field(kw_only=True)
    feature_names: tuple[str, ...] = ()

    def folds(self, k: int = 10, seed: int = 0) -> list[tuple[Split, Split]]:
        """Return k pairs of training and test split; every sample is in one test split.

        Each class is spread evenly over the folds, whose sizes differ by at most one.
        """
        parts = stratified_folds(self.whole.y, k, seed)
        return [
            (self.whole.select((parts != i).nonzero()[:, 0]), self.whole.select(test))
            for i in range(k)
            for test in [(parts == i).nonzero()[:, 0]]
        ]

    def without(self, *features: str) -> Table:
        """Return the table without the named features."""
        for name in features:
            if name not in self.feature_names:
                allowed = ", ".join(self.feature_names) or "none: these are images"
                raise ValueError(f"features must be of {allowed}, but got {name!r}.")
        kept = [i for i, name in enumerate(self.feature_names) if name not in features]
        whole, train, test = (
            Split(part.x[:, kept], part.y) for part in (self.whole, self.train, self.test)
        )
        names = tuple(self.feature_names[i] for i in kept)
        return replace(self, whole=whole, train=train, test=test, feature_names=names)


def as_table(
    name: str,
    whole: Split,
    class_names: Sequence[str],
    feature_names: Sequence[str],
    provenance: Provenance,
    *,
    seed: int = 0,
    is_subset: bool = False,
) -> Table:
    """Return a table whose training and test split are the first of ten seeded folds."""
    empty = whole.select(torch.arange(0))
    table = Table(
        name,
        whole,
        empty,
        tuple(class_names),
        provenance,
        is_subset,
        whole=whole,
        feature_names=tuple(feature_names),
    )
    if len(whole) < 10:  # too few for ten folds, as in a test: nothing is held out
        return table
    train, test = table.folds(10, seed)[0]
    return replace(table, train=train, test=test)
