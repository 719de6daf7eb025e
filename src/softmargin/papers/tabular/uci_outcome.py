"""What ag-tab1 concludes: accuracy beside the paper's, paired tests, wins, ranks, a verdict."""

from __future__ import annotations

import numpy as np

from softmargin.papers.core import Finished, Scope
from softmargin.papers.findings import verdict
from softmargin.papers.outcome import Finding, Outcome
from softmargin.papers.statistics import Comparison, wins
from softmargin.papers.tabular.arcgrad_table import PAPER_METHODS, PAPER_TABLE
from softmargin.papers.tabular.cross_validation import described
from softmargin.papers.tabular.uci_scores import BASELINE, Floats, Scores, comparisons, signs
from softmargin.papers.tabular.uci_tables import (
    accuracy_table,
    against_baseline,
    plain_table,
    rank_charts,
    spread_table,
    wins_table,
)

CLAIMED = "ArcGrad 5"


def conclude(setting: Scope, finished: Finished) -> Outcome:
    """Compare the methods on all tables that finished."""
    scores = Scores.of(finished)
    compared, adjusted = comparisons(scores)
    runs, folds = scores.accuracy.shape[2:]
    size = f"{setting.scale} scale, {runs} runs of {folds}-fold cross-validation"
    tables = [
        accuracy_table(scores, compared, adjusted, size),
        against_baseline(scores, compared, adjusted, size),
        wins_table(scores, size),
        spread_table(scores, size),
        plain_table(scores, scores.nll.mean(3), "NLL on test rows", "nats", size),
        plain_table(scores, scores.ece, "ECE on the test rows of a run together", "%", size),
    ]
    charts = list(rank_charts(scores, size))
    told = remark(scores, compared, adjusted)
    return Outcome(
        verdict(setting.scale, findings(scores), told),
        tables,
        charts,
        notes(scores),
        described(finished[0][0]),
    )


def findings(scores: Scores) -> list[Finding]:
    """Find whether the claimed method has the best average, and the most wins, of the seven."""
    averages = scores.accuracy[:, scores.seven].mean((0, 2, 3))
    counts = wins(scores.means[:, scores.seven])
    claimed = PAPER_METHODS.index(CLAIMED)
    best, most = int(np.nanargmax(averages)), int(counts.argmax())
    alone = most == claimed and int((counts == counts[claimed]).sum()) == 1
    return [
        Finding(
            f"on {len(scores.tables)} tables {CLAIMED} averages {averages[claimed]:.2f} % "
            f"({BASELINE} {averages[0]:.2f} %, the best is {PAPER_METHODS[best]} with "
            f"{averages[best]:.2f} %)",
            best == claimed,
        ),
        Finding(
            f"{CLAIMED} wins {counts[claimed]} tables (the most are {counts[most]} by "
            f"{PAPER_METHODS[most]})",
            alone,
        ),
    ]


def remark(scores: Scores, compared: dict[tuple[int, int], Comparison], adjusted: Floats) -> str:
    """Return how often the claimed method differs from plain softmax, and what may differ."""
    better, worse = signs(compared, adjusted, scores.methods.index(CLAIMED))
    return (
        f"Against {BASELINE}, {CLAIMED} is clearly better on {better} and clearly worse on "
        f"{worse}. Network, optimiser and epochs are not in the paper and may differ."
    )


def notes(scores: Scores) -> list[str]:
    """Return what a reader has to know to compare."""
    found = [
        f"{BASELINE}, like all methods with inner products, has no bias in its last layer, as in "
        "the paper; so all methods start from the same weights in a fold, and see the same rows "
        "in the same order.",
        "The paper does not give parameters for these tables. ArcFace (s = 20, m = 0.1), Center "
        "(λ = 0.02) and M-Soft (m = 0.5) have those it gives for CIFAR.",
        "± in the table of accuracy is over the means of runs; see the table of spread for single "
        "folds.",
    ]
    two = [name for name, classes in zip(scores.tables, scores.classes, strict=True) if classes < 3]
    if two:
        found += [
            f"AdaCos is not defined for two classes, where its scale √2·log(C - 1) is 0 "
            f"({', '.join(two)}): it has no entry there, no average over all tables, and ranks "
            "with it are over the others. The paper prints 46 to 54 % for it on exactly these, "
            "which is what guessing gives.",
            "For two classes the regulariser of LM is 0 whatever λ is: there that method is Soft.",
        ]
    if "Hayes-Roth" in scores.tables:
        found.append(
            "Hayes-Roth is used without the feature hobby, which is random by construction; the "
            "paper counts three features."
        )
    if 1 < len(scores.tables) < len(PAPER_TABLE):
        found.append(f"Only {len(scores.tables)} of {len(PAPER_TABLE)} data sets are finished.")
    return found
