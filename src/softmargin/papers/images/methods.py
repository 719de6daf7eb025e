"""The methods of the three papers' image tables: what each changes about plain softmax.

A method is a name, as in the tables, and options of a :class:`TrainingConfig`. Numbers that a
paper does not print are chosen here once, and said in ``CHOICES``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from softmargin.papers.tables import METHODS as OF_TABLES

CHOICES = {
    "warm-up": "β moves linearly over the first 30 % of all steps",
    "A-Softmax": "k = 4, λ from 1000 to 5 in equal ratios over the first 30 % of all steps",
    "L-Softmax": "k = 4, λ from 1000 to 5 in equal ratios over the first 30 % of all steps",
    "center loss": "λ = 0.003 with running centres",
    "LGM": "α from 0.1 to 0.3 over the first half, likelihood term with λ = 0.01: with 0.1 "
    "the free variances shrink faster than the classes part",
}
AS_PUBLISHED = (
    "L-Softmax and LGM are annealed by step as their authors do: λ = 1000·(1 + 0.000025·t)⁻³⁵, and "
    "α = 0.1, twice that after 5,000 steps, 0.3 after 10,000. Chosen where neither paper says it: "
    "k = 4 for L-Softmax, the likelihood term of LGM with λ = 0.01."
)
ANNEALED = ["head.anneal=geometric:1000:5:30%"]


@dataclass(frozen=True)
class Method:
    """How one column of a table is trained.

    Attributes:
        name: as in tables and legends.
        training: options of a :class:`TrainingConfig` in which it differs from plain softmax.
        beta: its β, which gives it a colour, or None.
    """

    name: str
    training: Mapping[str, Any] = field(default_factory=dict)
    beta: float | None = None

    def __hash__(self) -> int:
        """Hash by name: no two methods share one."""
        return hash(self.name)

    @property
    def share(self) -> float:
        """The share of the images that it trains on, and so of the time it takes."""
        return float(self.training.get("fraction") or 1.0)


def beta(value: float) -> Method:
    """Return gradient decay with a constant β.

    Example:
        >>> beta(0.1).name
        'β = 0.1'
    """
    return Method(f"β = {value:g}", {"loss_options": {"beta": value}}, value)


def warm_up(first: float, last: float) -> Method:
    """Return gradient decay whose β moves from one value to another (GD eq. 24)."""
    return Method(
        f"warm-up, β = {first:g}→{last:g}",
        {
            "loss_options": {"beta": first},
            "schedules": [f"beta=linear:{first:g}:{last:g}:30%"],
        },
        last,
    )


def betas(*values: float) -> tuple[Method, ...]:
    """Return gradient decay with several constant β."""
    return tuple(beta(value) for value in values)


A_SOFTMAX = Method("A-Softmax", {"head": "a_softmax", "schedules": ANNEALED})
CENTER_LOSS = Method("center loss", {"center": 0.003})

SOFTMAX = Method("softmax")
SUPER_SYMMETRY = Method("super-symmetry", {"head": "simplex"})
HINGE = Method("hinge (14)", {"loss": "mean_hinge"})
MODIFIED = Method("modified (15)", {"loss": "modified_softmax"})
LGM = Method(
    "LGM",
    {
        "head": "gaussian",
        "head_options": {"likelihood": 0.01},
        "schedules": ["head.margin=linear:0.1:0.3:50%"],
    },
)
L_SOFTMAX = Method("L-Softmax", {"head": "l_softmax", "schedules": ANNEALED})
# with their authors' annealing, which is in steps of long runs
LGM_AS_PUBLISHED = Method("LGM", {**LGM.training, "schedules": ["head.margin=lgm"]})
L_SOFTMAX_AS_PUBLISHED = Method(
    "L-Softmax", {"head": "l_softmax", "schedules": ["head.anneal=l_softmax"]}
)
DIVERGENCES = {
    "D(u‖q)": "uniform_to_logits",
    "D(q‖u)": "logits_to_uniform",
    "D̃(q)": "symmetric",
}


def smoothed(lam: float) -> Method:
    """Return softmax with label smoothing (LM eq. 13)."""
    return Method(f"LSR, λ = {lam:g}", {"loss_options": {"label_smoothing": lam}})


def regularized(lam: float, divergence: str = "D̃(q)") -> Method:
    """Return softmax with regularised logits (LM eq. 11).

    Example:
        >>> regularized(0.3).name, regularized(0.1, "D(u‖q)").name
        ('regularised, λ = 0.3', 'D(u‖q), λ = 0.1')
    """
    called = "regularised" if divergence == "D̃(q)" else divergence
    options = {"lam": lam, "divergence": DIVERGENCES[divergence]}
    return Method(
        f"{called}, λ = {lam:g}", {"loss": "regularized_softmax", "loss_options": options}
    )


BOTH = Method(
    "modified + regularised",
    {"loss": "regularized_softmax", "loss_options": {"lam": 0.3, "beta": math.exp(-1)}},
)


def _of_tables(name: str) -> Method:
    """Return a method as the tables of the ArcGrad paper have it."""
    (found,) = (each for each in OF_TABLES if each["name"] == name)
    return Method(name, {key: value for key, value in found.items() if key != "name"})


SOFT, CENTER, M_SOFT, ARC_FACE, ADA_COS = (
    _of_tables(name) for name in ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos")
)
ARC_GRAD = Method("ArcGrad", {"head": "arcgrad", "head_options": {"scale": 10.0}})
ARC_GRAD_METHODS = (SOFT, CENTER, M_SOFT, ARC_FACE, ADA_COS, ARC_GRAD)


def under(method: Method, condition: str, **training: Any) -> Method:
    """Return a method with further options, such as fewer images, and a name that says so.

    Example:
        >>> under(SOFTMAX, "0.5 of the images", fraction=0.5).name
        'softmax, 0.5 of the images'
    """
    changed = {**method.training, **training}
    return Method(f"{method.name}, {condition}", changed, method.beta)
