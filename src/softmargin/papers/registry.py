"""All experiments by their id, in the order of the papers; one is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from softmargin._text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softmargin.papers.experiment import Experiment

HOMES = {
    "theory": "gd-fig2 gd-fig7 lm-fig1 lm-fig4",
    "mnist": "gd-fig1 gd-fig3 gd-fig4 gd-fig5 gd-tab1",
    "images": (
        "gd-fig6 gd-fig8 gd-fig9 gd-fig10 gd-fig11 gd-fig12 gd-fig13 "
        "gd-tab2 gd-tab3 gd-tab4 gd-tab5 gd-tab6 gd-v1-tab2 gd-v1-tab3 gd-v1-tab4 gd-v1-tab5 "
        "lm-fig3 lm-tab1 lm-tab2 lm-tab3 lm-tab4 "
        "ag-fig3 ag-fig4 ag-tab4 ag-tab5 ag-tab6 ag-tab7 sm-calibration sm-compensation"
    ),
    "tabular": "ag-fig1 ag-fig2 ag-tab1",
}
"""Module → the ids that it has in its tuple ``EXPERIMENTS``."""

PAPERS = ("GD", "LM", "AG", "SM")  # the last is this library itself


def ids() -> list[str]:
    """Return all ids, in the order of the papers, without importing any experiment.

    Example:
        >>> ids()[:3], ids()[-1]
        (['gd-fig1', 'gd-fig2', 'gd-fig3'], 'sm-compensation')
    """
    return sorted(_home_of(), key=_place)


def experiments() -> dict[str, Experiment]:
    """Return all experiments by id."""
    return {name: _imported(name) for name in ids()}


def check_ids(names: Sequence[str]) -> None:
    """Raise ``ValueError`` with the nearest ids unless all are known; ``["all"]`` is."""
    known = ids()
    for name in names if list(names) != ["all"] else ():
        if name not in known:
            close = nearest(name, known, cutoff=0.4) or known[:3]
            raise ValueError(
                "ID must be one that softmargin reproduce list shows, such as "
                f"{', '.join(close)}, but got {name!r}."
            )


def find(name: str) -> Experiment:
    """Return the experiment of that id, or raise with the nearest ones."""
    return find_all([name])[0]


def find_all(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of some ids, each once; ``["all"]`` stands for every one."""
    if list(names) == ["all"]:
        return list(experiments().values())
    check_ids(names)
    return [_imported(name) for name in dict.fromkeys(names)]


def _home_of() -> dict[str, str]:
    return {name: module for module, names in HOMES.items() for name in names.split()}


def _imported(name: str) -> Experiment:
    found: Sequence[Experiment] = import_module(f"softmargin.papers.{_home_of()[name]}").EXPERIMENTS
    return next(experiment for experiment in found if experiment.id == name)


def _place(name: str) -> tuple[int, str, int]:
    """Order by paper, and gd-fig10 after gd-fig9."""
    stem = name.rstrip("0123456789")
    return PAPERS.index(name[:2].upper()), stem, int(name[len(stem) :] or 0)
