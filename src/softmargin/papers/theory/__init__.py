"""The figures that are theory alone: nothing is trained, so that all scales are the same.

The verdict is computed: "shown" only where every curve agrees with the library's losses and has
the properties that the page names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softmargin.papers.core import SCALES, Cell, Experiment, Scope
from softmargin.papers.theory import gradients, margins

BETA_CHOICE = (
    "the figure's own values of β cannot be read from the paper's text; drawn are values from its "
    "experiments"
)


def _one_cell(name: str, config: Mapping[str, Any]) -> Callable[[Scope], Sequence[Cell]]:
    """Return a single cell without work, whose key is that of what is drawn."""
    cell = Cell("nothing", {"theory": name, **config}, f"{name}: theory", seconds=0.1)
    return lambda _: [cell]


def _theory(name: str, config: Mapping[str, Any], deviation: str = "", **rest: Any) -> Experiment:
    return Experiment(
        name,
        cells=_one_cell(name, config),
        seeds=dict.fromkeys(SCALES, 1),
        spread=False,
        deviations=dict.fromkeys(SCALES, deviation) if deviation else {},
        **rest,
    )


BETAS = {"betas": list(gradients.BETAS), "classes": gradients.CLASSES}
EXPERIMENTS = (
    _theory(
        "gd-fig2",
        BETAS,
        BETA_CHOICE,
        title="gradient magnitude against confidence",
        paper="GD",
        where="Figure 2",
        claim=(
            "β sets how a sample's gradient fades as its confidence rises: the smaller β is, the "
            "longer the gradient stays near 1 before it drops to 0, which acts as a soft margin of "
            "probability; a large β lets it fade at once."
        ),
        conclude=gradients.by_confidence,
    ),
    _theory(
        "gd-fig7",
        BETAS,
        BETA_CHOICE,
        title="gradient magnitude against the target's logit",
        paper="GD",
        where="Figure 7 (Figure 3 of the first version)",
        claim=(
            "For ten classes that begin level, the point where the gradient falls fastest moves "
            "away from the start as β shrinks, so that a large and even gradient dominates "
            "training."
        ),
        conclude=gradients.by_logit,
    ),
    _theory(
        "lm-fig1",
        {"classes": [*margins.LEVEL_CLASSES, *margins.BIAS_CLASSES]},
        title="hinge against softplus, with their biases",
        paper="LM",
        where="Figure 1",
        claim=(
            "Softmax cross-entropy is a margin loss as the hinge is: softplus in place of the "
            "hinge, and in place of the constant bias 1 one that depends on the wrong classes' "
            "logits and is largest where these are level."
        ),
        conclude=margins.hinge_and_softplus,
    ),
    _theory(
        "lm-fig4",
        {"divergences": list(margins.DIVERGENCES.values())},
        title="three divergences of two categories",
        paper="LM",
        where="Figure 4",
        claim=(
            "The divergence from uniform to the softmax asks for level logits more strongly than "
            "the reverse one; the symmetric one lies between."
        ),
        conclude=margins.divergences,
    ),
)
