"""Schedules: how β, λ, scales and margins move during training.

A schedule sets one numeric attribute of a loss or head. It sets the value for step 0 when it is
made and the next one at every ``step()``; what a step is, an iteration or an epoch, is up to who
calls it. Values that the attribute would refuse are refused when the schedule is made.
"""

from softmargin.schedules.annealing import a_softmax_annealing, l_softmax_annealing, lgm_annealing
from softmargin.schedules.base import Schedule, Schedules
from softmargin.schedules.curves import Constant, Cosine, Geometric, InversePower, Linear, Piecewise
from softmargin.schedules.feedback import CalibratedBeta

__all__ = [
    "CalibratedBeta",
    "Constant",
    "Cosine",
    "Geometric",
    "InversePower",
    "Linear",
    "Piecewise",
    "Schedule",
    "Schedules",
    "a_softmax_annealing",
    "l_softmax_annealing",
    "lgm_annealing",
]
