"""Published annealing, with its authors' numbers."""

from __future__ import annotations

from torch import nn

from softmargin._docs import document_arguments
from softmargin.functional._checks import check_number
from softmargin.schedules.base import SCHEDULE_ARGUMENTS
from softmargin.schedules.curves import InversePower, Piecewise


@document_arguments(SCHEDULE_ARGUMENTS, head="a head with an ``anneal`` attribute.")
def l_softmax_annealing(
    head: nn.Module,
    *,
    base: float = 1000.0,
    gamma: float = 0.000025,
    power: float = 35.0,
    floor: float = 0.0,
) -> InversePower:
    """Return the annealing of L-Softmax's λ with its authors' numbers, stepped per iteration.

    The head starts almost without margin and reaches a tenth of its λ after 2700 iterations.

    Example:
        >>> import torch
        >>> from softmargin.schedules import l_softmax_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.anneal = 0.0
        >>> schedule = l_softmax_annealing(head)
        >>> [round(schedule.value_at(step), 3) for step in (0, 2720, 20000)]
        [1000.0, 100.001, 0.001]
    """
    return InversePower(head, "anneal", base, gamma, power, floor)


@document_arguments(SCHEDULE_ARGUMENTS, head="a head with an ``anneal`` attribute.")
def a_softmax_annealing(
    head: nn.Module,
    *,
    base: float = 1000.0,
    gamma: float = 0.12,
    power: float = 1.0,
    floor: float = 5.0,
) -> InversePower:
    """Return the annealing of A-Softmax's λ with SphereFace's numbers, stepped per iteration.

    λ reaches its floor of 5 after 1659 iterations and stays there.

    Example:
        >>> import torch
        >>> from softmargin.schedules import a_softmax_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.anneal = 0.0
        >>> schedule = a_softmax_annealing(head)
        >>> [round(schedule.value_at(step), 3) for step in (0, 100, 20000)]
        [1000.0, 76.923, 5.0]
    """
    return InversePower(head, "anneal", base, gamma, power, floor)


def lgm_annealing(
    head: nn.Module,
    *,
    start: float = 0.1,
    factor: float = 2.0,
    every: float = 5000,
    maximum: float = 0.3,
) -> Piecewise:
    """Return the growth of LGM's margin α with its authors' numbers, stepped per iteration.

    0.1 at first, 0.2 from step 5000 on, 0.3 from step 10000 on.

    Args:
        head: a head with a ``margin`` attribute.
        start: margin at step 0, above 0.
        factor: what the margin is multiplied by, above 1.
        every: after how many steps it is multiplied.
        maximum: the largest margin, at least ``start``.

    Example:
        >>> import torch
        >>> from softmargin.schedules import lgm_annealing
        >>> head = torch.nn.Module()  # any module that has the attribute
        >>> head.margin = 0.0
        >>> lgm_annealing(head).points
        [(0, 0.1), (5000, 0.2), (10000, 0.3)]
    """
    check_number("start", start)
    check_number("factor", factor, above=1)
    check_number("every", every, above=1, inclusive=True)
    check_number("maximum", maximum, above=start, inclusive=True)
    points: list[tuple[float, float]] = [(0, start)]
    while points[-1][1] < maximum:
        points.append((len(points) * every, min(points[-1][1] * factor, maximum)))
    return Piecewise(head, "margin", points)
