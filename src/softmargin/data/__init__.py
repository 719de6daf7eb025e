"""Real data sets: found on this machine or downloaded, verified, and kept as plain tensors.

>>> from softmargin.data import load
>>> train, test = load("digits")
>>> train.images.shape, test.y.dtype
(torch.Size([1617, 1, 8, 8]), torch.int64)
"""

from softmargin.data.augment import (
    Augment,
    Normalize,
    channel_statistics,
    random_crop,
    random_flip,
)
from softmargin.data.errors import BrokenFileError, DownloadError, MissingDataError
from softmargin.data.loading import load, load_table
from softmargin.data.readers.folders import FolderSplit
from softmargin.data.registry import names
from softmargin.data.resized_crop import RandomResizedCrop
from softmargin.data.sampling import pollute_labels
from softmargin.data.sets import Dataset, FileRecord, Provenance, Split, subset
from softmargin.data.table import Table

__all__ = [
    "Augment",
    "BrokenFileError",
    "Dataset",
    "DownloadError",
    "FileRecord",
    "FolderSplit",
    "MissingDataError",
    "Normalize",
    "Provenance",
    "RandomResizedCrop",
    "Split",
    "Table",
    "channel_statistics",
    "load",
    "load_table",
    "names",
    "pollute_labels",
    "random_crop",
    "random_flip",
    "subset",
]
