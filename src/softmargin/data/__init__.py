"""Real data sets: found on this machine or downloaded, verified, and kept as plain tensors.

>>> from softmargin.data import load
>>> train, test = load("digits")
>>> train.images.shape, test.y.dtype
(torch.Size([1617, 1, 8, 8]), torch.int64)
"""

from typing import TYPE_CHECKING

from softmargin._lazy import lazy
from softmargin.data.errors import BrokenFileError, DownloadError, MissingDataError
from softmargin.data.registry import names

if TYPE_CHECKING:
    from softmargin.data.augment import (
        Augment,
        Normalize,
        RandomResizedCrop,
        channel_statistics,
        random_crop,
        random_flip,
    )
    from softmargin.data.files import FileRecord
    from softmargin.data.loading import load, load_table
    from softmargin.data.readers.pictures import FolderSplit
    from softmargin.data.sampling import label_noise, pollute_labels
    from softmargin.data.sets import Dataset, Provenance, Split, Table, subset
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "augment": (
                "Augment Normalize RandomResizedCrop channel_statistics random_crop random_flip"
            ),
            "files": "FileRecord",
            "loading": "load load_table",
            "readers.pictures": "FolderSplit",
            "sampling": "label_noise pollute_labels",
            "sets": "Dataset Provenance Split Table subset",
        },
    )

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
    "label_noise",
    "load",
    "load_table",
    "names",
    "pollute_labels",
    "random_crop",
    "random_flip",
    "subset",
]
