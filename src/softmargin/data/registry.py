"""Which data sets there are. Adding one costs an entry, and a reader for a new format."""

from __future__ import annotations

from difflib import get_close_matches

from softmargin.data.entry import Entry
from softmargin.data.published_images import IMAGES
from softmargin.data.published_tables import TABLES
from softmargin.data.readers.bundled import read_digits, read_iris

_BUNDLED = (
    Entry(
        "digits",
        "Optical Recognition of Handwritten Digits, 8x8, the test part",
        10,
        1797,
        0,
        "https://archive.ics.uci.edu/dataset/80",
        "CC BY 4.0",
        bundled=read_digits,
    ),
    Entry(
        "iris",
        "Iris as in scikit-learn, with Fisher's values in two rows where UCI's differ",
        3,
        150,
        0,
        "https://archive.ics.uci.edu/dataset/53",
        "CC BY 4.0",
        bundled=read_iris,
    ),
)

ENTRIES = {entry.name: entry for entry in (*IMAGES, *_BUNDLED, *TABLES)}


def names() -> list[str]:
    """Return the names that ``load`` knows.

    >>> names()[:4]
    ['mnist', 'fashion_mnist', 'cifar10', 'cifar100']
    """
    return list(ENTRIES)


def entry_of(name: str) -> Entry:
    """Return an entry; for an unknown name raise ``ValueError`` with the nearest ones."""
    if not isinstance(name, str):
        raise TypeError(f"name must be text, but got {name!r}.")
    if name in ENTRIES:
        return ENTRIES[name]
    stems = {known.removeprefix("uci/"): known for known in reversed(ENTRIES)}
    plain = name.lower().replace("-", "_").removeprefix("uci/")
    close = get_close_matches(plain, stems, n=3, cutoff=0.5)
    if plain in stems:
        close = [plain, *(stem for stem in close if stem != plain)]
    nearest = [stems[stem] for stem in close] or names()
    raise ValueError(f"name must be a data set such as {', '.join(nearest)}, but got {name!r}.")
