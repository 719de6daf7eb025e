"""AG Tables IV, V and VII, Figure 3: accuracy of the methods, with fewer epochs and images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from softmargin.charts import Chart
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats, shown
from softmargin.papers.images import ag_numbers, desk, recipes, words
from softmargin.papers.images.charts import differences
from softmargin.papers.images.desk import COSINES, fewer
from softmargin.papers.images.findings import RULE, Finding, compare, of_score, verdict
from softmargin.papers.images.methods import ARC_FACE, ARC_GRAD, ARC_GRAD_METHODS, SOFT
from softmargin.papers.images.runs import (
    ACCURACY,
    TOP_5,
    TRAINED,
    Numbers,
    Runs,
    Score,
    compared_table,
    in_column,
    method_band,
    score_table,
)
from softmargin.papers.images.tasks import Plan, Task, each
from softmargin.papers.outcome import Outcome

SEEDS = {"smoke": 2, "desk": 5, "paper": 5}
AUGMENTED = replace(recipes.ARC_10_PLUS, beside="CIFAR-10, ResNet18, augmented")
RECIPE = (
    "Softmax and its kin have no bias, as in the paper's formulas. The one-cycle schedule is "
    "PyTorch's."
)
DESK_RECIPE = (
    "Adam's learning rate peaks at 0.002 instead of 0.1, with which fully connected networks "
    "diverge."
)


@dataclass(frozen=True)
class Table:
    """A table of accuracy: what is trained, and the paper's numbers for one or two scores."""

    plan: Plan
    paper: tuple[tuple[Score, Numbers], ...]
    findings: Callable[[Runs, Score, Task], list[Finding]]

    def conclude(self, setting: Scope, finished: Finished) -> Outcome:
        """Return accuracy beside the paper's, and whether ArcGrad leads."""
        runs = Runs(setting, finished, self.plan)
        note = "Differences are against Soft."
        tables = [
            score_table(runs, score, SOFT.name, numbers, note=note) for score, numbers in self.paper
        ]
        tables.append(score_table(runs, TRAINED, SOFT.name))
        score = self.paper[0][0]
        found = [each for task in runs.tasks for each in self.findings(runs, score, task)]
        charts = [differences(runs, score, SOFT.name)]
        if len(runs.tasks) > 2:
            charts.append(by_epochs(runs, score))
        return Outcome(verdict(setting, found), tables, charts, [RULE], runs.setup)


def leads(runs: Runs, score: Score, task: Task) -> list[Finding]:
    """Judge whether ArcGrad is above softmax, and has the highest mean of all."""
    above = of_score(runs, score, task, (ARC_GRAD.name, SOFT.name), 1)
    return [above, best_of_all(runs, score, task)]


def best_of_all(runs: Runs, score: Score, task: Task) -> Finding:
    """Find whether no other method has a higher mean than ArcGrad."""
    found = {method.name: score.of(runs, task, method) for method in ARC_GRAD_METHODS}
    best = max(found, key=lambda name: float(np.nan_to_num(found[name], nan=-1.0).mean()))
    text = f"on {task.name}, the highest mean is that of {best} with {shown(found[best], 2)} %"
    if best != ARC_GRAD.name:
        text += f" ({ARC_GRAD.name} has {shown(found[ARC_GRAD.name], 2)} %)"
    return Finding(text, best == ARC_GRAD.name)


def by_epochs(runs: Runs, score: Score) -> Chart:
    """Draw accuracy against the number of epochs that a cycle has."""
    epochs = [int(task.training["epochs"]) for task in runs.tasks]
    series = [
        method_band(method, epochs, np.stack([score.of(runs, t, method) for t in runs.tasks], 1))
        for method in ARC_GRAD_METHODS
    ]
    return Chart(
        "accuracy-by-epochs",
        "Accuracy by the number of epochs of a training",
        *("line", "epochs", "test accuracy (%)"),
        series,
        log_x=True,
        note=f"{runs.note}; {BAND}. Every point is a training of its own.",
    )


TABLE_4 = Table(
    Plan(
        each([desk.ARC_10_PLUS, desk.ARC_10], ARC_GRAD_METHODS),
        each([AUGMENTED, recipes.ARC_10], ARC_GRAD_METHODS),
    ),
    ((ACCURACY, {**ag_numbers.TABLE_4, "90 epochs": ag_numbers.TABLE_4["CIFAR-10, ResNet18"]}),),
    leads,
)
TABLE_5 = Table(
    Plan(each([desk.ARC_100], ARC_GRAD_METHODS), each([recipes.ARC_100_PLUS], ARC_GRAD_METHODS)),
    ((ACCURACY, ag_numbers.TABLE_5_TOP_1), (TOP_5, ag_numbers.TABLE_5_TOP_5)),
    leads,
)
EPOCHS = (10, 20, 40, 90)
TABLE_7 = Table(
    Plan(
        each(desk.ARC_BY_EPOCHS, ARC_GRAD_METHODS),
        each([recipes.arc_epochs(epochs) for epochs in EPOCHS], ARC_GRAD_METHODS),
    ),
    ((ACCURACY, ag_numbers.TABLE_7),),
    leads,
)

# --- Figure 3

SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)
PLAN_3 = Plan(
    [(desk.ARC_SHARES, desk.ARC_SHARES.methods)],
    [
        (
            recipes.arc_epochs(20),
            tuple(fewer(method, share) for share in SHARES for method in COSINES),
        )
    ],
)


def conclude_shares(setting: Scope, finished: Finished) -> Outcome:
    """Return accuracy by share of the images, and whether ArcGrad's lead grows."""
    runs = Runs(setting, finished, PLAN_3)
    (task,) = runs.tasks
    shares = SHARES if setting.scale == "paper" else desk.SHARES
    values = {
        (method.name, f"{share:g} of the images"): ACCURACY.of(runs, task, fewer(method, share))
        for method in COSINES
        for share in shares
    }
    table = compared_table(
        runs,
        ACCURACY,
        values,
        lambda key: (SOFT.name, key[1]),
        {},
        "The paper has a figure only. Differences are against Soft in the same column.",
    )
    chart = Chart(
        "accuracy-by-share",
        "Test accuracy by share of the training images",
        *("line", "share of the training images", "test accuracy (%)"),
        [method_band(m, shares, _curve(values, m.name, shares)) for m in COSINES],
        note=f"{runs.note}; {BAND}.",
    )
    found = [_lead(values, other.name, shares) for other in (SOFT, ARC_FACE)]
    least = f"{shares[-1]:g} of the images"
    found += [
        compare(
            f"with {least}, accuracy in %",
            in_column(values, least),
            (ARC_GRAD.name, other.name),
            1,
        )
        for other in COSINES[:-1]
    ]
    return Outcome(verdict(setting, found), [table], [chart], [RULE], runs.setup)


def _curve(values: dict[tuple[str, str], Floats], name: str, shares: tuple[float, ...]) -> Floats:
    found: Floats = np.stack([values[name, f"{share:g} of the images"] for share in shares], 1)
    return found


def _lead(values: dict[tuple[str, str], Floats], other: str, shares: tuple[float, ...]) -> Finding:
    """Find whether ArcGrad's lead is larger with the fewest images than with all."""
    lead = _curve(values, ARC_GRAD.name, shares) - _curve(values, other, shares)
    what = f"the lead of {ARC_GRAD.name} over {other} in points"
    leads = {"the fewest images": lead[:, -1], "all": lead[:, 0]}
    return compare(what, leads, ("the fewest images", "all"), 1)


EXPERIMENTS = (
    Experiment(
        *("ag-tab4", "Accuracy on CIFAR-10, with and without augmentation", "AG", "Table IV"),
        "ArcGrad has the highest accuracy of six methods, with and without augmentation.",
        TABLE_4.plan.cells,
        TABLE_4.conclude,
        seeds=SEEDS,
        deviations=words.deviations(
            (RECIPE,),
            (
                DESK_RECIPE,
                "Without augmentation networks are fully connected; with it, a small residual "
                "network, three seeds.",
            ),
        ),
    ),
    Experiment(
        *("ag-tab5", "Accuracy on CIFAR-100 with augmentation", "AG", "Table V"),
        "ArcGrad has the highest top-1 accuracy of six methods, Center the highest top-5.",
        TABLE_5.plan.cells,
        TABLE_5.conclude,
        seeds=SEEDS,
        deviations=words.deviations(
            (RECIPE,), (words.CONNECTED, DESK_RECIPE, "Images are not augmented.")
        ),
    ),
    Experiment(
        *("ag-fig3", "Accuracy by share of the training images", "AG", "Figure 3"),
        "ArcGrad's advantage over other methods shows when training images are taken away.",
        PLAN_3.cells,
        conclude_shares,
        seeds=SEEDS,
        deviations=words.deviations(
            (RECIPE, "The shares are not printed: 1, 0.8, 0.6, 0.4 and 0.2 at paper scale."),
            (words.CONNECTED, DESK_RECIPE, "12 epochs, shares 1, 0.5, 0.25 and 0.1 of the part."),
        ),
    ),
    Experiment(
        *("ag-tab7", "Accuracy after few epochs", "AG", "Table VII"),
        "For every length of training ArcGrad is the most accurate, by most after few epochs.",
        TABLE_7.plan.cells,
        TABLE_7.conclude,
        seeds=SEEDS,
        deviations=words.deviations(
            (
                RECIPE,
                "What the loss costs beside softmax (3.4 % in the paper) is a time, which no two "
                "runs give alike: python -m benchmarks measures it.",
            ),
            (
                words.CONNECTED,
                DESK_RECIPE,
                "3, 6, 12 and 27 epochs stand for 10, 20, 40 and 90. Images are not augmented.",
            ),
        ),
    ),
)
