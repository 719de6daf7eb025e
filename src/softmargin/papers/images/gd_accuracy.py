"""GD Table 2, and Tables 2 to 5 of its first version: accuracy by β, data and network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.images import desk, gd_numbers, recipes, words
from softmargin.papers.images.charts import differences
from softmargin.papers.images.findings import RULE, Finding, of_score, verdict
from softmargin.papers.images.methods import A_SOFTMAX, CENTER_LOSS, Method, betas, warm_up
from softmargin.papers.images.runs import (
    ACCURACY,
    TOP_5,
    TRAINED,
    Numbers,
    Runs,
    Score,
    score_table,
)
from softmargin.papers.images.tasks import Plan, Task, each
from softmargin.papers.outcome import Outcome

FIVE = betas(5, 2, 1, 0.1, 0.01)
WARM, WARM_UP = warm_up(0.1, 1), warm_up(1, 5)
BASELINE = "β = 1"
SEEDS = {"smoke": 2, "desk": 5, "paper": 3}


@dataclass(frozen=True)
class Table:
    """A table of accuracy: what is trained, which score, the paper's numbers.

    Attributes:
        plan: tasks and methods.
        score: which accuracy.
        paper: as printed.
        prefers: by data set, whether small (-1) or large β (1) is claimed to be better.
    """

    plan: Plan
    score: Score
    paper: Numbers
    prefers: dict[str, int]

    def conclude(self, setting: Scope, finished: Finished) -> Outcome:
        """Return accuracy beside the paper's, and which β it prefers."""
        runs = Runs(setting, finished, self.plan)
        tables = [score_table(runs, self.score, BASELINE, self.paper)]
        tables.append(score_table(runs, TRAINED, BASELINE))
        charts = [differences(runs, self.score, BASELINE)]
        found = [finding for task in runs.tasks for finding in self._findings(runs, task)]
        return Outcome(verdict(setting, found), tables, charts, [RULE], runs.setup)

    def _findings(self, runs: Runs, task: Task) -> list[Finding]:
        """Judge the claimed side of β = 1, the other side, and the warm-up."""
        prefers = next((s for data, s in self.prefers.items() if data in task.name), 0)
        better, worse = ("β = 5", "β = 0.01") if prefers > 0 else ("β = 0.1", "β = 5")
        there = {method.name for method in runs.methods(task)}
        judged = [(better, 1), (worse, -1)] if prefers else []
        judged += [(method.name, 1) for method in (WARM, WARM_UP)]
        return [
            of_score(runs, self.score, task, (name, BASELINE), sign)
            for name, sign in judged
            if name in there
        ]


def _first(desk_task: Task, tasks: Sequence[Task], warm: Method) -> Plan:
    """Return a table of the first version: one data set, all networks, no augmentation."""
    methods = (*FIVE, warm)
    return Plan(each([desk_task], methods), each(tasks, methods))


TABLES = {
    "gd-tab2": Table(
        Plan(
            [
                *each(
                    [desk.SVHN, desk.CIFAR10, desk.CIFAR100, desk.TINY],
                    (*FIVE, WARM, A_SOFTMAX, CENTER_LOSS),
                ),
                (desk.RESIDUAL, desk.RESIDUAL_DECAYS),
            ],
            each(
                [*recipes.SVHN, *recipes.CIFAR10, *recipes.CIFAR100, recipes.TINY_34],
                (*FIVE, WARM, A_SOFTMAX, CENTER_LOSS),
            ),
        ),
        ACCURACY,
        gd_numbers.TABLE_2,
        {"SVHN": -1, "CIFAR-100": 1, "CIFAR-10": -1},
    ),
    "gd-v1-tab2": Table(
        _first(desk.CIFAR10, recipes.CIFAR10_PLAIN, WARM),
        ACCURACY,
        gd_numbers.V1_TABLE_2,
        {"CIFAR-10": -1},
    ),
    "gd-v1-tab3": Table(
        _first(desk.SVHN, recipes.SVHN, WARM), ACCURACY, gd_numbers.V1_TABLE_3, {"SVHN": -1}
    ),
    "gd-v1-tab4": Table(
        _first(desk.CIFAR100, recipes.CIFAR100_PLAIN, WARM_UP),
        ACCURACY,
        gd_numbers.V1_TABLE_4,
        {"CIFAR-100": 1},
    ),
    "gd-v1-tab5": Table(
        _first(desk.CIFAR100, recipes.CIFAR100_PLAIN, WARM_UP),
        TOP_5,
        gd_numbers.V1_TABLE_5,
        {"CIFAR-100": 1},
    ),
}
VGG = "VGG16 has batch normalisation; ResNet35 is taken for ResNet34."
FIRST = (words.OPEN, words.chosen("warm-up"), VGG)
ENDS = "The ends of the warm-up are not printed for these data: 0.1→1 as in the second version."
SMALL_IS_BETTER = "Every network gains from β below 1 and from a warm-up, and loses with β = 5."
CLAIMS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "gd-tab2": (
        "Top-1 accuracy by β, data and network",
        "Table 2",
        "SVHN and CIFAR-10 gain from a small β (0.1 above 1 above 5), CIFAR-100 from a large one; "
        "a warm-up of β from 0.1 to 1 is at least as good as any constant β.",
        (
            words.OPEN,
            words.chosen("warm-up", "A-Softmax", "center loss"),
            VGG,
            "Augmentation is not printed: the level of its numbers speaks for it on all but SVHN.",
            words.CLIPPED,
        ),
    ),
    "gd-v1-tab2": (
        "Top-1 accuracy on CIFAR-10 without augmentation",
        "Table 2 of its first version",
        SMALL_IS_BETTER,
        (*FIRST, ENDS),
    ),
    "gd-v1-tab3": (
        "Top-1 accuracy on SVHN",
        "Table 3 of its first version",
        SMALL_IS_BETTER,
        (*FIRST, ENDS),
    ),
    "gd-v1-tab4": (
        "Top-1 accuracy on CIFAR-100 without augmentation",
        "Table 4 of its first version",
        "Every network prefers a large β, and a warm-up from 1 to 5 to any constant one.",
        FIRST,
    ),
    "gd-v1-tab5": (
        "Top-5 accuracy on CIFAR-100 without augmentation",
        "Table 5 of its first version",
        "Top-5 accuracy, too, is better with a large β, and with a warm-up from 1 to 5.",
        FIRST,
    ),
}
EXPERIMENTS = tuple(
    Experiment(
        *(name, title, "GD", where, claim, TABLES[name].plan.cells, TABLES[name].conclude),
        seeds=SEEDS,
        deviations=words.deviations(
            paper, (words.CONNECTED, *([words.RESIDUAL] if name == "gd-tab2" else []))
        ),
    )
    for name, (title, where, claim, paper) in CLAIMS.items()
)
