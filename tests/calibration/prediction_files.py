"""Files of predictions for the tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import parquet

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(500, 12)).astype(np.float32)
LABELS = RNG.integers(0, 12, 500)


def columns(stem, order=range(12)):
    return {f"{stem}{i}": LOGITS[:, i] for i in order}


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def table_csv(folder, text):
    (folder / "a.csv").write_text(text)
    return folder / "a.csv"


def parquet_of(folder, **columns):
    parquet.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def two_npy(folder, values, labels, **options):
    np.save(folder / "logits.npy", values, **options)
    np.save(folder / "y.npy", labels)
    return folder / "logits.npy", folder / "y.npy"


TWO, ONE = [[0.5, 2.0], [1.0, 0.5]], [0, 1]
