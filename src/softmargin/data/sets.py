"""What ``load`` returns: samples with classes, and where they came from.

>>> import torch
>>> from softmargin.data import Split
>>> split = Split(torch.zeros(6, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 0, 0, 0, 1, 1]))
>>> len(split), split.subset(0.5).class_counts(2)
(6, [2, 1])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from softmargin.data.files import FileRecord
from softmargin.data.sampling import stratified_folds, stratified_indices


class Split:
    """Samples ``x`` and their classes ``y``, both in memory.

    Works wherever a map-style ``torch.utils.data.Dataset`` does; ``batch`` is the fast way.

    Args:
        x: uint8 images or floating-point rows, one per sample.
        y: int64 classes.

    Shape:
        - x: (N, C, H, W) for images, (N, F) for tables.
        - y: (N).
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        """Keep the tensors, which must be equally long."""
        if len(x) != len(y):
            raise ValueError(f"y must hold one class per sample, {len(x)}, but got {len(y)}.")
        self._x, self.y = x, y

    @property
    def x(self) -> Tensor:
        """All samples."""
        return self._x

    @property
    def images(self) -> Tensor:
        """All samples, by the name that suits images."""
        return self.x

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the samples and classes at these indices."""
        return self.x[indices], self.y[indices]

    def select(self, indices: Tensor) -> Split:
        """Return a split of the samples at these indices, or where a mask says so."""
        return Split(*Split.batch(self, indices))

    def subset(self, fraction: float, seed: int = 0) -> Split:
        """Return a stratified part; see :func:`softmargin.data.subset`."""
        return self.select(stratified_indices(self.y, fraction, seed))

    def with_labels(self, y: Tensor) -> Split:
        """Return the same samples with other classes, such as noisy ones."""
        return Split(self.x, y)

    def class_counts(self, num_classes: int) -> list[int]:
        """Return how many samples each class has."""
        return torch.bincount(self.y, minlength=num_classes).tolist()

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return one sample and its class."""
        return self.x[index], self.y[index]

    def __repr__(self) -> str:
        """Name the shape."""
        return f"Split(x={tuple(self.x.shape)} {self.x.dtype}, y=({len(self)},))"


@dataclass(frozen=True)
class Provenance:
    """Where data came from: page of the source, files read, licence, and what is special."""

    source: str
    licence: str
    files: tuple[FileRecord, ...] = ()
    note: str = ""


@dataclass(frozen=True, repr=False)
class Dataset:
    """A training and a test split with class names and provenance.

    Unpacks into its splits: ``train, test = load("digits")``.

    Attributes:
        is_subset: Whether samples of the published set are missing, because the copy on this
            machine is a part or because a fraction was asked for. Figures on it are not
            comparable with published ones.
        mirrorable: Whether a picture mirrored left to right is still one of its class, so that
            augmentation may mirror it. Photographs are, digits are not; data of your own are not
            unless you say so.
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    provenance: Provenance
    is_subset: bool = False
    mirrorable: bool = False

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    def subset(self, fraction: float, seed: int = 0) -> Dataset:
        """Return the same data with a stratified part of the training split; test stays whole."""
        train = self.train.subset(fraction, seed)
        return replace(self, train=train, is_subset=self.is_subset or len(train) < len(self.train))

    def describe(self) -> dict[str, Any]:
        """Return which copy this is, in plain values: to report it, or to compare two.

        ``files`` has the SHA-256 of every file that was read, by its name.

        >>> from softmargin.data import load
        >>> digits = load("digits").describe()
        >>> digits["name"], digits["classes"], digits["train"], digits["test"], digits["files"]
        ('digits', 10, 1617, 180, {})
        """
        where = self.provenance
        return {
            "name": self.name,
            "classes": self.num_classes,
            "train": len(self.train),
            "test": len(self.test),
            "is_subset": self.is_subset,
            "source": where.source,
            "note": where.note,
            "verified": bool(where.files) and all(record.verified for record in where.files),
            "files": {Path(record.path).name: record.sha256 for record in where.files},
        }

    def __iter__(self) -> Iterator[Split]:
        """Go over training and test split."""
        return iter((self.train, self.test))

    def __repr__(self) -> str:
        """Name the sizes, and whether samples are missing."""
        part = ", a part of the published set" if self.is_subset else ""
        return (
            f"{type(self).__name__}({self.name}: {len(self.train)} train, {len(self.test)} test, "
            f"{self.num_classes} classes{part})"
        )


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
        fold = stratified_folds(self.whole.y, k, seed)
        return [(self.whole.select(fold != i), self.whole.select(fold == i)) for i in range(k)]

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
    fold = torch.ones_like(whole.y)
    if len(whole) >= 10:  # with fewer, as in a test, nothing is held out
        fold = stratified_folds(whole.y, 10, seed)
    return Table(
        name,
        whole.select(fold != 0),
        whole.select(fold == 0),
        tuple(class_names),
        provenance,
        is_subset,
        whole=whole,
        feature_names=tuple(feature_names),
    )


SplitOrDataset = TypeVar("SplitOrDataset", Split, Dataset)


def subset(dataset: SplitOrDataset, fraction: float, seed: int = 0) -> SplitOrDataset:
    """Return a stratified part of a split, or of a data set's training split (LM Table 3).

    The part has exactly ``round(fraction · N)`` samples, in their original order, and every class
    keeps its share of them to within one sample.

    Args:
        dataset: A ``Split``, or a ``Dataset``, whose test split then stays whole.
        fraction: Share to keep, above 0 and at most 1.
        seed: Which samples.

    Example:
        >>> from softmargin.data import load, subset
        >>> digits = load("digits")
        >>> half = subset(digits, 0.5)
        >>> len(digits.train), len(half.train), half.is_subset
        (1617, 809, True)

    Reference:
        Kobayashi, "Large-Margin in Softmax Cross-Entropy Loss", BMVC 2019, Table 3.
    """
    if not isinstance(dataset, (Split, Dataset)):
        raise TypeError(f"dataset must be a Dataset or a Split, but got {type(dataset).__name__}.")
    return dataset.subset(fraction, seed)
