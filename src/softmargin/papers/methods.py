"""The methods of the three papers: what each changes about plain softmax.

Numbers that a paper does not print are chosen here once, and said in ``CHOICES``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from softmargin.papers.grid import Method

CHOICES = {
    "warm-up": "β moves linearly over the first 30 % of all steps",
    "A-Softmax": "k = 4, λ from 1000 to 5 in equal ratios over the first 30 % of all steps",
    "L-Softmax": "k = 4, λ from 1000 to 5 in equal ratios over the first 30 % of all steps",
    "center loss": "λ = 0.003 with running centres",
    "LGM": "α from 0.1 to 0.3 over the first half, likelihood term with λ = 0.01: with 0.1 "
    "the free variances shrink faster than the classes part",
}

# --- gradient decay


def beta(value: float) -> Method:
    """Return gradient decay with a constant β.

    Example:
        >>> beta(0.1).name
        'β = 0.1'
    """
    return Method(f"β = {value:g}", {"loss_options": {"beta": value}}, value)


def warm_up(first: float, last: float) -> Method:
    """Return gradient decay whose β moves from one value to another (GD eq. 24).

    Example:
        >>> warm_up(0.1, 1).name
        'warm-up, β = 0.1→1'
    """
    training = {
        "loss_options": {"beta": first},
        "schedules": [f"beta=linear:{first:g}:{last:g}:30%"],
    }
    return Method(f"warm-up, β = {first:g}→{last:g}", training, last, (first, last))


def betas(*values: float) -> tuple[Method, ...]:
    """Return gradient decay with several constant β."""
    return tuple(beta(value) for value in values)


def compensated(value: float) -> Method:
    """Return gradient decay whose batches pull as hard as those of β = 1.

    Example:
        >>> compensated(20).name
        'β = 20, compensated'
    """
    options = {"beta": value, "compensate": True}
    return Method(f"β = {value:g}, compensated", {"loss_options": options}, value)


def with_momentum(method: Method, momentum: float) -> Method:
    """Return a method that is trained with another momentum of SGD.

    Example:
        >>> with_momentum(beta(5), 0.5).name
        'β = 5, momentum 0.5'
    """
    return replace(
        method,
        name=f"{method.name}, momentum {momentum:g}",
        training={**method.training, "momentum": momentum},
    )


_ANNEALED = ["head.anneal=geometric:1000:5:30%"]
A_SOFTMAX = Method("A-Softmax", {"head": "a_softmax", "schedules": _ANNEALED})
CENTER_LOSS = Method("center loss", {"center": 0.003})
SCALINGS = (
    Method("vector scaling", scaling="vector"),
    Method("temperature scaling", scaling="temperature"),
)

# --- large margin in softmax

SOFTMAX = Method("softmax")
SUPER_SYMMETRY = Method("super-symmetry", {"head": "simplex"})
HINGE = Method("hinge (14)", {"loss": "mean_hinge"})
MAX_HINGE = Method("hinge, one pair", {"loss": "max_hinge"})
MODIFIED = Method("modified (15)", {"loss": "modified_softmax"})
LGM = Method(
    "LGM",
    {
        "head": "gaussian",
        "head_options": {"likelihood": 0.01},
        "schedules": ["head.margin=linear:0.1:0.3:50%"],
    },
)
L_SOFTMAX = Method("L-Softmax", {"head": "l_softmax", "schedules": _ANNEALED})
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
        f"{called}, λ = {lam:g}",
        {"loss": "regularized_softmax", "loss_options": options},
        base=divergence,
        condition=f"λ = {lam:g}",
        amount=lam,
    )


BOTH = Method(
    "modified + regularised",
    {"loss": "regularized_softmax", "loss_options": {"lam": 0.3, "beta": math.exp(-1)}},
)


def focal(gamma: float) -> Method:
    """Return the focal loss."""
    return Method(f"focal, γ = {gamma:g}", {"loss": "focal", "loss_options": {"gamma": gamma}})


def steered(method: Method, share: float) -> Method:
    """Return a method that holds a share of its training images out, to be steered by them."""
    return replace(method, training={**method.training, "held_out": share})


BY_FEEDBACK = Method("β by feedback", {"schedules": ["beta=calibrated"]})
ADA_FOCAL = Method("AdaFocal", {"loss": "adafocal"})


def fewer(method: Method, share: float) -> Method:
    """Return a method that is trained on a share of the images.

    Example:
        >>> fewer(SOFTMAX, 0.5).name
        'softmax, 0.5 of the images'
    """
    return _under(method, f"{share:g} of the images", "fraction", share)


def mislabelled(method: Method, share: float) -> Method:
    """Return a method that is trained with a share of the labels wrong."""
    return _under(method, f"{share:g} polluted", "pollute", share)


def _under(method: Method, condition: str, option: str, share: float) -> Method:
    return replace(
        method,
        name=f"{method.name}, {condition}",
        training={**method.training, option: share},
        base=method.name,
        condition=condition,
        amount=share,
    )


# --- ArcGrad, whose softmax has no bias (AG eq. 4), so that all heads have the same parameters

_NO_BIAS = {"head_options": {"bias": False}}
SOFT = Method("Soft", _NO_BIAS)
CENTER = Method("Center", {"center": 0.02, **_NO_BIAS})
M_SOFT = Method(
    "M-Soft", {"loss": "soft_margin_softmax", "loss_options": {"margin": 0.5}, **_NO_BIAS}
)
ARC_FACE = Method("ArcFace", {"head": "arcface", "head_options": {"scale": 20.0, "margin": 0.1}})
ADA_COS = Method("AdaCos", {"head": "adacos"})
ARC_GRAD = Method("ArcGrad", {"head": "arcgrad", "head_options": {"scale": 10.0}})
ARC_GRAD_METHODS = (SOFT, CENTER, M_SOFT, ARC_FACE, ADA_COS, ARC_GRAD)
COSINES = (SOFT, ARC_FACE, ADA_COS, ARC_GRAD)
