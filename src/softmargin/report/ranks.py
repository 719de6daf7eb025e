"""The critical-difference diagram: average ranks, and which methods they do not tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softmargin.functional._checks import check_number
from softmargin.papers.statistics import cliques
from softmargin.report.figures import GREEN, INK, MUTED, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# heights, in rows of text counted downwards from the axis
CD_AT, CD_TEXT_AT, NUMBERS_AT = -2.0, -2.35, -0.45
FIRST_CLIQUE_AT, CLIQUE_STEP, LABEL_STEP = 0.7, 0.45, 1.0
INCHES_PER_ROW, INCHES_PER_LETTER, AXIS_INCHES = 0.27, 0.085, 4.6
BAR_OVERHANG = 0.012  # as a share of the axis


def critical_difference_figure(
    ranks: Mapping[str, float], cd: float, n_sets: int, level: float = 0.95
) -> Figure:
    """Draw Demšar's diagram of average ranks.

    An axis of average ranks with the best on the left; each method's name and rank beside it,
    the better half on the left; a bar under every largest group of methods that differ by less
    than the critical difference; and a bar of that length above the axis.

    Args:
        ranks: average rank by name, at least two, each from 1 to their number.
        cd: critical difference, see :func:`softmargin.papers.statistics.critical_difference`.
        n_sets: number of data sets the ranks are averages over, for the title.
        level: confidence level ``cd`` was found at, for its label.

    Returns:
        A figure that belongs to no window; its colours are among those every page knows.

    Example:
        >>> ranks = {"plain": 2.4, "margin": 1.3, "centre": 2.3}
        >>> figure = critical_difference_figure(ranks, cd=0.86, n_sets=15)
        >>> figure.axes[0].get_title(loc="left")
        'Average rank over 15 data sets (1 is best)'

    Reference:
        J. Demšar, "Statistical comparisons of classifiers over multiple data sets", 2006.
    """
    _check(ranks, cd, n_sets, level)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    bars = _bars([rank for _, rank in ordered], cd)
    first_label = FIRST_CLIQUE_AT + CLIQUE_STEP * (1 + max((row for *_, row in bars), default=0))
    bottom = first_label + LABEL_STEP * (math.ceil(len(ordered) / 2) - 1) + 2.1
    with house_style():
        width = AXIS_INCHES + INCHES_PER_LETTER * _letters([name for name, _ in ordered])
        figure = new_figure(width, INCHES_PER_ROW * (bottom - CD_TEXT_AT) + 0.7)
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set(xlim=(1, len(ordered)), ylim=(bottom, CD_TEXT_AT - 0.7))
        axes.set_title(f"Average rank over {n_sets} data sets (1 is best)", loc="left")
        _draw_axis(axes, len(ordered))
        _draw_critical_difference(axes, cd, level)
        _draw_methods(axes, ordered, first_label)
        _draw_bars(axes, bars, bottom)
    return figure


def _check(ranks: Mapping[str, float], cd: float, n_sets: int, level: float) -> None:
    """Refuse what is not average ranks, in one sentence."""
    check_number("cd", cd)
    check_number("n_sets", n_sets, above=1, inclusive=True)
    check_number("level", level, below=1.0)
    if len(ranks) < 2:
        raise ValueError(f"ranks must hold at least 2 methods, but got {len(ranks)}.")
    for name, rank in ranks.items():
        if not 1 <= rank <= len(ranks):
            raise ValueError(
                f"ranks must be from 1 to the number of methods, {len(ranks)}, "
                f"but got {rank} for {name!r}."
            )


def _letters(names: Sequence[str]) -> int:
    """Return how many letters the longest lines beside the axis take, left and right together."""
    half = math.ceil(len(names) / 2)
    return sum(max(map(len, side)) + len("  10.00  ") for side in (names[:half], names[half:]))


def _bars(ranks: Sequence[float], cd: float) -> list[tuple[float, float, int]]:
    """Return start, end and row of each clique's bar; bars of one row do not touch."""
    gap = 4 * BAR_OVERHANG * (len(ranks) - 1)
    ends: list[float] = []
    bars = []
    for group in cliques(ranks, cd):
        start, end = ranks[group[0]], ranks[group[-1]]
        row = next((i for i, taken in enumerate(ends) if start > taken + gap), len(ends))
        ends[row : row + 1] = [end]
        bars.append((start, end, row))
    return bars


def _draw_axis(axes: Axes, methods: int) -> None:
    axes.plot([1, methods], [0, 0], color=INK.light, linewidth=1.2)
    for rank in range(1, methods + 1):
        axes.plot([rank, rank], [0, -0.25], color=INK.light, linewidth=1.2, clip_on=False)
        axes.text(
            rank, NUMBERS_AT, str(rank), ha="center", va="bottom", color=MUTED.light, size="small"
        )


def _draw_critical_difference(axes: Axes, cd: float, level: float) -> None:
    """Draw the yardstick from rank 1 on; one longer than the axis ends in an arrow."""
    low, high = axes.get_xlim()
    longer = cd > high - low
    end = high if longer else low + cd
    look: Any = {"color": INK.light, "clip_on": False}
    axes.plot([low, end], [CD_AT, CD_AT], linewidth=1.7, marker="|", markersize=9, **look)
    if longer:
        axes.plot([end], [CD_AT], marker=">", markersize=7, **look)
    beyond = ", longer than the axis" if longer else ""
    words = f"critical difference {cd:.2f} (Nemenyi, {100 * level:g} %){beyond}"
    axes.text(low, CD_TEXT_AT, words, ha="left", va="bottom")


def _draw_methods(axes: Axes, ordered: Sequence[tuple[str, float]], first: float) -> None:
    """Draw names left and right; the outermost rank is the highest, so that no lines cross."""
    half = math.ceil(len(ordered) / 2)
    beyond = 0.03 * (len(ordered) - 1)
    for place, (name, rank) in enumerate(ordered):
        left = place < half
        # half a row lower on the right: lines from both sides never look like one
        row = place if left else len(ordered) - 0.5 - place
        depth = first + LABEL_STEP * row
        side = 1 - beyond if left else len(ordered) + beyond
        axes.plot(
            [rank, rank, side],
            [0, depth, depth],
            color=MUTED.light,
            linewidth=1.0,
            clip_on=False,
            solid_joinstyle="miter",
        )
        axes.plot([rank], [0], color=INK.light, marker="o", markersize=4, clip_on=False)
        words = f"{name}  {rank:.2f} " if left else f" {rank:.2f}  {name}"
        axes.text(side, depth, words, ha="right" if left else "left", va="center")


def _draw_bars(axes: Axes, bars: Sequence[tuple[float, float, int]], bottom: float) -> None:
    """Draw a bar for each group of methods that do not differ, and say what bars mean."""
    low, high = axes.get_xlim()
    overhang = BAR_OVERHANG * (high - low)
    for start, end, row in bars:
        height = FIRST_CLIQUE_AT + CLIQUE_STEP * row
        axes.plot(
            [start - overhang, end + overhang],
            [height, height],
            color=GREEN.light,
            linewidth=4.0,
            solid_capstyle="butt",
            clip_on=False,
            zorder=3,
        )
    meaning = "bar: no two of its methods are significantly different"
    words = meaning if bars else "all methods are significantly different from each other"
    tone = GREEN if bars else MUTED
    centre = (low + high) / 2
    axes.text(centre, bottom - 0.2, words, ha="center", va="bottom", color=tone.light, size="small")
