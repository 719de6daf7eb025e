"""Finished cells as values over seeds: for tables, bands and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softmargin.charts import Series
from softmargin.papers.core import Finished, Scope
from softmargin.papers.findings import Floats, adjusted, banded
from softmargin.papers.mnist.cells import BASELINE, beta_of, label, present, setup
from softmargin.papers.outcome import Entry
from softmargin.papers.statistics import Comparison, paired_bootstrap

ByVariant = Mapping[str, Floats]


class Seeds:
    """The results of one experiment, in which a variant has one value or curve per seed."""

    def __init__(self, setting: Scope, finished: Finished) -> None:
        """Keep the results in the order of the seeds, so that variants are paired."""
        ordered = sorted(finished, key=lambda each: int(each[0].config["seed"]))
        self.setting = setting
        self.config = ordered[0][0].config
        self.results = [result for _, result in ordered]
        first = self.results[0].numbers
        self.variants: list[str] = first["variants"]
        self.samples: int = first["samples"]
        self.epochs = int(self.config["epochs"])
        self.setup = setup(self.config, first["inputs"])

    def numbers(self, variant: str, *path: str) -> Floats:
        """Return a number or list of a variant, (seeds, ...), such as ``"final", "nll"``."""
        place, values = self.variants.index(variant), []
        for result in self.results:
            found: Any = result.numbers
            for name in path:
                found = found[name]
            values.append(found[place])
        return np.array(values, dtype=np.float64)

    def arrays(self, variant: str, name: str) -> Floats:
        """Return an array of a variant, (seeds, ...), such as a score by epoch."""
        place = self.variants.index(variant)
        return np.stack([np.float64(result.arrays[name][place]) for result in self.results])

    def present(self, wanted: Sequence[str]) -> list[str]:
        """Return the wanted variants that were trained."""
        return present(wanted, self.variants)

    @property
    def note(self) -> str:
        """The scale and the seeds, in words."""
        count = len(self.results)
        seeds = f"{count} seed{'s' if count > 1 else ''}"
        return f"{self.setting.scale.capitalize()} scale, {self.config['data']}, {seeds}"


def against(values: ByVariant, variant: str, baseline: str = BASELINE) -> Comparison:
    """Compare a variant with another over the seeds, which gave both the same start."""
    return paired_bootstrap(values[variant], values[baseline], seed=0)


def compared_entries(
    columns: Mapping[str, ByVariant], paper: Mapping[str, Mapping[str, float]] | None = None
) -> list[Entry]:
    """Return a table's entries, compared with β = 1 in their column; Holm over all of them.

    A variant whose value is not finite for every seed has no entry.
    """
    paper = paper or {}
    entries: list[Entry] = []
    for column, values in columns.items():
        base = values.get(BASELINE, np.array([np.nan]))
        for variant, own in values.items():
            if not np.isfinite(own).all():
                continue
            other = variant != BASELINE and len(own) > 1 and bool(np.isfinite(base).all())
            entries.append(
                Entry(
                    label(variant),
                    column,
                    own.tolist(),
                    paper=paper.get(column, {}).get(variant),
                    comparison=against(values, variant) if other else None,
                    baseline=(label(BASELINE), column) if other else None,
                )
            )
    return adjusted(entries)


def band(variant: str, x: Sequence[float], curves: Floats) -> Series:
    """Return a variant's mean over seeds of curves (seeds, places), with its interval."""
    series = banded(label(variant), x, curves)
    fields = {**vars(series), "beta": beta_of(variant), "dashed": "→" in variant}
    return Series(**fields)
