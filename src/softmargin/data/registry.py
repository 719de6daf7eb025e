"""Which data sets there are. Adding one costs an entry, and a reader for a new format."""

from __future__ import annotations

from difflib import get_close_matches

from softmargin._text import printable
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


def groups() -> list[str]:
    """Return the words that stand for several data sets.

    >>> groups()
    ['uci']
    """
    return list(dict.fromkeys(entry.group for entry in ENTRIES.values() if entry.group))


def overview() -> str:
    """Return what there is in one phrase: a collection counts as one.

    >>> overview()[-39:]
    'places365, digits, iris and uci/<table>'
    """
    single = [entry.name for entry in ENTRIES.values() if not entry.group]
    return f"{', '.join(single)} and {', '.join(f'{group}/<table>' for group in groups())}"


def entry_of(name: str, argument: str = "name") -> Entry:
    """Return an entry; for an unknown name raise ``ValueError`` with the nearest ones.

    ``argument`` is what the caller of the caller calls the name.
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be text, but got {name!r}.")
    if name in ENTRIES:
        return ENTRIES[name]
    stems = {entry.stem: entry.name for entry in reversed(ENTRIES.values())}
    plain = name.lower().replace("-", "_").rpartition("/")[2]
    close = get_close_matches(plain[:100], stems, n=3, cutoff=0.5)
    if plain in stems:
        close = [plain, *(stem for stem in close if stem != plain)]
    nearest = ", ".join(stems[stem] for stem in close)
    allowed = f"a data set such as {nearest}" if nearest else f"one of {overview()}"
    raise ValueError(f"{argument} must be {allowed}, but got '{printable(name)}'.")
