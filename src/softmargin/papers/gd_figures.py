"""The gradient-decay paper's figures of images: reliability diagrams, and accuracy by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softmargin.papers import desk, recipes
from softmargin.papers.charts import ByEpoch, reliability
from softmargin.papers.findings import Compare, Floats, Monotone
from softmargin.papers.gd_tables import (
    BY_HELD_OUT,
    CLIPPED,
    FIVE,
    NOT_TWO,
    OPEN,
    RESIDUAL_BETAS,
    UP_TO_20,
    UP_TO_50,
    WARM,
)
from softmargin.papers.grid import Method, Plan, Task, shrunk
from softmargin.papers.methods import beta, betas, with_momentum
from softmargin.papers.rows import (
    CONNECTED,
    USEFUL,
    Row,
    chosen,
    deviations,
)
from softmargin.papers.runs import ACCURACY, ACCURACY_CURVE, CONFIDENCE, ECE, MCE, Score
from softmargin.papers.tables import ScoreTable

# --- reliability diagrams: Figures 6 and 9 to 13


SHARED = "Figures 6 and 10 show the same networks at this scale."
AUGMENTED = "Images are augmented, which those of Figures 6 and 10 are not."


def reliability_row(
    number: int,
    on_paper: Task,
    at_desk: Task,
    methods: Sequence[Method],
    said: Sequence[str] = (USEFUL,),
) -> Row:
    """Return a figure of reliability diagrams, one for each β."""
    data = on_paper.paper_row.removesuffix(f", {on_paper.network}")
    clipped = (CLIPPED,) if on_paper.data == "tiny_imagenet" else ()
    stand_in = replace(at_desk, stands_for=on_paper.network)
    return Row(
        id=f"gd-fig{number}",
        title=f"Reliability diagrams by β, {data}, {{network}}",
        place=f"Figure {number}",
        claim="The smaller β is, the more confident the network, beyond its accuracy: small β "
        "makes over-confidence worse, large β takes it away.",
        plan=Plan(
            desk=[(stand_in, methods)],
            paper=[(on_paper, methods)],
            smoke=[(shrunk(stand_in), methods if stand_in.methods else betas(20, 1, 0.1))],
        ),
        network=on_paper.network,
        findings=(
            Monotone(CONFIDENCE, 1),
            Compare(ECE, "β = 20", -1),
            Compare(ECE, "β = 0.1", 1),
        ),
        tables=[ScoreTable(score) for score in (ECE, MCE, CONFIDENCE, ACCURACY)],
        charts=(reliability,),
        deviations=deviations((OPEN, *clipped), said),
    )


RELIABILITY_ROWS = (
    reliability_row(6, recipes.CIFAR100[0], desk.USEFUL_100, UP_TO_20, (USEFUL, SHARED)),
    reliability_row(9, recipes.CIFAR10[0], desk.USEFUL_10_PLAIN, UP_TO_50),
    reliability_row(10, recipes.CIFAR100[1], desk.USEFUL_100, UP_TO_50, (USEFUL, SHARED)),
    reliability_row(
        11,
        recipes.CIFAR100[2],
        desk.USEFUL_100_AUGMENTED,
        UP_TO_50,
        (USEFUL, AUGMENTED, BY_HELD_OUT),
    ),
    reliability_row(12, recipes.TINY_34, desk.TINY, UP_TO_20, (CONNECTED,)),
    reliability_row(13, recipes.TINY_50, desk.TINY_WIDER, UP_TO_20, (CONNECTED,)),
)

# --- accuracy by epoch: Figure 8


def swing(curves: Floats) -> Floats:
    """Return how far curves (seeds, epochs) swing over their first half.

    Example:
        >>> swing(np.array([[0.0, 1, 2, 3, 9, 9], [0.0, 1, 0, 1, 9, 9]])).tolist()
        [0.0, 2.0]
    """
    half = curves[:, : max(3, curves.shape[1] // 2)]
    if half.shape[1] < 3:
        return np.zeros(len(curves))
    swung: Floats = np.sqrt((np.diff(half, 2, axis=1) ** 2).mean(1))
    return swung


SWING = Score(
    "Swing of accuracy before the rate falls",
    array="accuracy",
    reduce=swing,
    better="higher",
    phrase="the swing of accuracy in points",
)
SWING_NOTE = (
    "The swing is the root mean square of the second differences of accuracy from epoch to epoch "
    "before the learning rate first falls, so that steady progress does not count."
)
SLOWER = tuple(with_momentum(beta(5), momentum) for momentum in (0.5, 0.0))
FIGURE_8 = Row(
    id="gd-fig8",
    title="Test accuracy by epoch on CIFAR-100 and CIFAR-10",
    place="Figure 8",
    claim="Test accuracy swings visibly more from epoch to epoch with a large β, and less with "
    "less momentum.",
    plan=Plan(
        desk=[
            (desk.USEFUL_100, (*RESIDUAL_BETAS, WARM, *SLOWER)),
            (desk.USEFUL_10_PLAIN, (*RESIDUAL_BETAS, WARM)),
        ],
        paper=[
            (recipes.CIFAR100[0], (*FIVE, WARM, *SLOWER)),
            (recipes.CIFAR10_PLAIN[0], (*FIVE, WARM)),
        ],
    ),
    findings=(
        Compare(SWING, "β = 5", 1),
        *(Compare(SWING, method.name, -1, other="β = 5") for method in SLOWER),
    ),
    tables=(ScoreTable(SWING, note=SWING_NOTE), ScoreTable(ACCURACY)),
    charts=(ByEpoch(ACCURACY_CURVE, "accuracy"),),
    deviations=deviations(
        (OPEN, chosen("warm-up"), "CIFAR-10 is the first version's Figure 8."),
        (USEFUL, NOT_TWO),
    ),
    notes=(SWING_NOTE,),
)

ROWS = (*RELIABILITY_ROWS, FIGURE_8)
