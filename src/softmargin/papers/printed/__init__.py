"""The numbers that the papers print: one CSV file for each table, beside this module.

A file is named after the experiment that sets ours beside them, ``gd-tab2.csv``, and has one line
for each number: ``paper``, ``place``, ``score`` (empty where the table has one score only),
``row``, ``column``, ``value``, and ``sd`` where a standard deviation is printed. Rows and columns
have the names they have in our tables.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

Printed = Mapping[str, Mapping[str, float | tuple[float, float]]]
"""A paper's table by row, then by column: a mean, or a mean and a standard deviation."""


@cache
def printed(name: str, score: str = "") -> Printed:
    """Return the numbers that a paper prints, by row, then by column.

    Args:
        name: of the experiment, such as ``"gd-tab2"``.
        score: which score, where the paper's table has several, such as ``"ECE"``.

    Returns:
        For each row and column the number, or a pair of it and its standard deviation where the
        paper prints one. Empty where the paper's table does not have that score.

    Example:
        >>> printed("gd-tab2")["CIFAR-10, ResNet18"]["β = 1"]
        94.3
        >>> printed("lm-tab2")["softmax"]
        {'error rate': (28.62, 0.24)}
        >>> printed("gd-tab4", "ECE")["CIFAR-100, ResNet18"]["β = 20"]
        0.021
    """
    text = (files(__package__) / f"{name}.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    if not score and lines[0]["score"]:
        several = ", ".join(repr(each) for each in dict.fromkeys(line["score"] for line in lines))
        raise ValueError(f"score must be one of {several} for the table {name}, but got none.")
    table: dict[str, dict[str, float | tuple[float, float]]] = {}
    for line in lines:
        if line["score"] == score:
            value = float(line["value"])
            pair = (value, float(line["sd"])) if line["sd"] else value
            table.setdefault(line["row"], {})[line["column"]] = pair
    return table


@cache
def printed_means(name: str, score: str = "") -> Mapping[str, Mapping[str, float]]:
    """Return the same numbers without standard deviations.

    Example:
        >>> printed_means("lm-tab2")["softmax"]
        {'error rate': 28.62}
    """
    return {
        row: {
            column: value[0] if isinstance(value, tuple) else value
            for column, value in values.items()
        }
        for row, values in printed(name, score).items()
    }
