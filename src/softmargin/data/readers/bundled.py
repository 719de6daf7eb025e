"""The two data sets that come with scikit-learn: digits and iris."""

from __future__ import annotations

from collections.abc import Callable

import torch

from softmargin.data.sets import Split

Bundled = Callable[[], tuple[Split, list[str], list[str]]]


def read_digits() -> tuple[Split, list[str], list[str]]:
    """Return 1797 grey 8x8 digits with values 0 to 16."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).to(torch.uint8)[:, None]
    return Split(images, _classes(bunch.target)), [str(i) for i in range(10)], []


def read_iris() -> tuple[Split, list[str], list[str]]:
    """Return 150 irises with 4 measures."""
    from sklearn.datasets import load_iris

    bunch = load_iris()
    split = Split(torch.from_numpy(bunch.data).double(), _classes(bunch.target))
    return split, [str(name) for name in bunch.target_names], list(bunch.feature_names)


def _classes(target: object) -> torch.Tensor:
    return torch.as_tensor(target).to(torch.int64)
