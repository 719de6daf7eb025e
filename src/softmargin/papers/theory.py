"""The figures that are theory alone: nothing is trained, so that all scales are the same.

The verdict is computed: "shown" only where every curve agrees with the library's losses and has
the properties that the page names (:mod:`softmargin.papers.theory_figures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softmargin.papers.core import SCALES, Cell, Experiment, deferred

BETA_CHOICE = (
    "the figure's own values of β cannot be read from the paper's text; drawn are values from its "
    "experiments"
)
BETAS = (10.0, 5.0, 2.0, 1.0, 0.5, 0.1, 0.01, 0.001)  # falling: the gradient rises
CLASSES = 10
LEVEL_CLASSES = (2, 10, 100)
BIAS_CLASSES = (3, 10, 100)
DIVERGENCES = {
    "D(u‖q), uniform to softmax": "uniform_to_logits",
    "symmetric, their mean": "symmetric",
    "D(q‖u), softmax to uniform": "logits_to_uniform",
}


def _figure(
    name: str, config: Mapping[str, Any], conclude: str, deviation: str = "", **rest: Any
) -> Experiment:
    """Return an experiment of a single cell without work, whose key is that of what is drawn."""
    cell = Cell("nothing", {"theory": name, **config}, f"{name}: theory", seconds=0.1)
    return Experiment(
        name,
        cells=lambda _: [cell],
        conclude=deferred(f"softmargin.papers.theory_figures:{conclude}"),
        seeds=dict.fromkeys(SCALES, 1),
        spread=False,
        deviations=dict.fromkeys(SCALES, deviation) if deviation else {},
        **rest,
    )


EXPERIMENTS = (
    _figure(
        "gd-fig2",
        {"betas": list(BETAS), "classes": CLASSES},
        deviation=BETA_CHOICE,
        title="gradient magnitude against confidence",
        paper="GD",
        where="Figure 2",
        claim=(
            "β sets how a sample's gradient fades as its confidence rises: the smaller β is, the "
            "longer the gradient stays near 1 before it drops to 0, which acts as a soft margin of "
            "probability; a large β lets it fade at once."
        ),
        conclude="by_confidence",
    ),
    _figure(
        "gd-fig7",
        {"betas": list(BETAS), "classes": CLASSES},
        deviation=BETA_CHOICE,
        title="gradient magnitude against the target's logit",
        paper="GD",
        where="Figure 7 (Figure 3 of the first version)",
        claim=(
            "For ten classes that begin level, the point where the gradient falls fastest moves "
            "away from the start as β shrinks, so that a large and even gradient dominates "
            "training."
        ),
        conclude="by_logit",
    ),
    _figure(
        "lm-fig1",
        {"classes": [*LEVEL_CLASSES, *BIAS_CLASSES]},
        title="hinge against softplus, with their biases",
        paper="LM",
        where="Figure 1",
        claim=(
            "Softmax cross-entropy is a margin loss as the hinge is: softplus in place of the "
            "hinge, and in place of the constant bias 1 one that depends on the wrong classes' "
            "logits and is largest where these are level."
        ),
        conclude="hinge_and_softplus",
    ),
    _figure(
        "lm-fig4",
        {"divergences": list(DIVERGENCES.values())},
        title="three divergences of two categories",
        paper="LM",
        where="Figure 4",
        claim=(
            "The divergence from uniform to the softmax asks for level logits more strongly than "
            "the reverse one; the symmetric one lies between."
        ),
        conclude="divergences",
    ),
)
