"""Data maps and group curves, drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from softmargin._lazy import import_extra
from softmargin.diagnostics.confidence import ConfidenceGroups
from softmargin.diagnostics.data_maps import DataMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_data_map(data_map: DataMap, ax: Axes | None = None) -> Axes:
    """Draw each sample's mean confidence over its variability, coloured by correctness.

    Easy samples lie at the top left, hard ones at the bottom left, ambiguous ones at the right.

    Args:
        data_map: of one model.
        ax: where to draw; matplotlib axes, by default new ones.

    Returns:
        the axes.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.diagnostics import data_map, plot_data_map
        >>> confidence = torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
        >>> found = data_map(confidence, confidence > 0.5, confidence - 0.5)
        >>> plot_data_map(found, Figure().add_subplot()).get_xlabel()
        'variability (standard deviation over epochs)'
    """
    _check("data_map", data_map, DataMap, "confidence")
    ax = _axes(ax)
    columns = data_map.variability, data_map.confidence, data_map.correctness
    x, y, color = (column.cpu().numpy() for column in columns)
    dots = ax.scatter(x, y, c=color, s=6, cmap="viridis", vmin=0, vmax=1, linewidths=0)
    ax.figure.colorbar(dots, ax=ax, label="correctness (share of epochs)")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1)
    ax.set_xlabel("variability (standard deviation over epochs)")
    ax.set_ylabel("confidence (mean over epochs)")
    return ax


def plot_groups(groups: ConfidenceGroups, ax: Axes | None = None) -> Axes:
    """Draw each group's mean confidence by epoch, as GD's Figure 3 e-h.

    Args:
        groups: of one model.
        ax: where to draw; matplotlib axes, by default new ones.

    Returns:
        the axes.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from softmargin.diagnostics import confidence_groups, plot_groups
        >>> confidence = torch.rand(3, 50, generator=torch.Generator().manual_seed(0))
        >>> len(plot_groups(confidence_groups(confidence), Figure().add_subplot()).lines)
        5
    """
    _check("groups", groups, ConfidenceGroups, "members")
    ax = _axes(ax)
    curves = groups.curves.cpu().numpy()
    count = curves.shape[1]
    notes = {0: " (hardest)", count - 1: " (easiest)"} if count > 1 else {}
    for group in range(count):
        label = f"group {group + 1}{notes.get(group, '')}"
        ax.plot(range(1, len(curves) + 1), curves[:, group], label=label)
    ax.set_ylim(0, 1)
    ax.set_xlabel("epoch")
    ax.set_ylabel("mean confidence")
    ax.legend()
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot", "plots need matplotlib").subplots()
    return ax


def _check(name: str, value: object, wanted: type, per_sample: str) -> None:
    """Raise unless the value is of one model, which has one entry per sample."""
    if not isinstance(value, wanted):
        raise TypeError(f"{name} must be a {wanted.__name__}, but got {type(value).__name__}.")
    entries: Tensor = getattr(value, per_sample)
    if entries.ndim != 1:
        raise ValueError(
            f"{name} must be of one model, but got {len(entries)} models; choose one of them."
        )
