"""Which data sets there are; PyTorch is not imported for that.

Adding one costs an entry in ``published.toml``, and a reader for a new format.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from softmargin._text import nearest, printable
from softmargin.data.entry import DatasetEntry, Layout
from softmargin.data.recipes import Recipe

_UCI = "uci"
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


def _entry(name: str, facts: dict[str, Any]) -> DatasetEntry:
    layouts = tuple(Layout(**layout) for layout in facts.pop("layouts", ()))
    for several in ("shape", "class_names"):
        facts[several] = tuple(facts.get(several, ()))
    return DatasetEntry(name, layouts=layouts, **facts)


def _table(stem: str, facts: Mapping[str, Any]) -> DatasetEntry:
    number, recipe = facts.get("dataset"), Recipe.of(facts)
    sums = {f"{stem}.csv": [f"sha256:{facts['sha256']}"]}
    return DatasetEntry(
        name=f"{_UCI}/{stem}",
        title=facts["title"],
        num_classes=len(recipe.class_counts),
        train=sum(recipe.class_counts.values()),
        test=0,
        source="https://archive.ics.uci.edu" + (f"/dataset/{number}" if number else ""),
        licence=facts.get("licence", "CC BY 4.0"),
        layouts=(Layout([_UCI], sums, "tables:read_table", note=facts.get("note", "")),),
        recipe=recipe,
        group=_UCI,
    )


def _entries() -> dict[str, DatasetEntry]:
    facts = tomllib.loads(files("softmargin.data").joinpath("published.toml").read_text("utf-8"))
    tables = facts.pop(_UCI)
    found = [_entry(name, each) for name, each in facts.items()]
    found += [_table(stem, each) for stem, each in tables.items()]
    return {entry.name: entry for entry in found}


ENTRIES = _entries()


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


def own_kind(name: str) -> str:
    """Return whether a name is that of a ``"table"`` or a ``"folder"`` of one's own, or neither.

    >>> own_kind("flowers.csv"), own_kind("pictures/"), own_kind("uci/iris")
    ('table', 'folder', '')
    """
    if name in ENTRIES:
        return ""
    if name.lower().endswith(TABLES):
        return "table"
    return "folder" if name.endswith("/") or Path(name).is_dir() else ""


def entry_of(name: str, argument: str = "name") -> DatasetEntry:
    """Return an entry; for an unknown name raise ``ValueError`` with the nearest ones.

    ``argument`` is what the caller of the caller calls the name.
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be text, but got {name!r}.")
    if name in ENTRIES:
        return ENTRIES[name]
    stems = {entry.stem: entry.name for entry in reversed(ENTRIES.values())}
    plain = name.lower().replace("-", "_").rpartition("/")[2]
    close = ", ".join(stems[stem] for stem in nearest(plain, stems))
    allowed = f"a data set such as {close}" if close else f"one of {overview()}"
    raise ValueError(f"{argument} must be {allowed}, but got '{printable(name)}'.")
