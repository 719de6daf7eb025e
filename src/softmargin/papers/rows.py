"""One row declares an experiment: what is trained, what is claimed, tables and charts.

Everything that a row lists is a function of the runs: one of the kinds of finding, table and chart
that the engine has, or a small function of the paper's module where none of them fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from softmargin.papers.charts import Draw
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import RULE, Rule, verdict
from softmargin.papers.grid import Plan
from softmargin.papers.methods import CHOICES
from softmargin.papers.outcome import Outcome, Shortfall
from softmargin.papers.printed import printed_means
from softmargin.papers.runs import ACCURACY, Runs
from softmargin.papers.tables import Tabulate

SEEDS: Mapping[str, int] = {"smoke": 2, "desk": 12, "paper": 3}
FIVE_ON_PAPER: Mapping[str, int] = {**SEEDS, "paper": 5}
DIRECTIONS = "At this scale only the direction of an effect can be judged."


@dataclass(frozen=True)
class Row:
    """An experiment, declared.

    Attributes:
        id: such as ``"gd-tab2"``; its first letters are the paper's.
        title: what it shows, in a few words. ``{network}`` stands for the network that is trained.
        place: in the paper, such as ``"Table 2"``.
        claim: what the paper concludes from it, in our words.
        plan: tasks by methods at every scale.
        findings: what the verdict rests on, judged task by task.
        tables: in their order.
        charts: in their order.
        deviations: where the scales differ from the paper's recipe, by scale.
        seeds: how many at each scale; tasks may have fewer.
        baseline: name of the method that the others are compared with.
        network: the paper's, where the title says which.
        notes: on how things are measured.
        remark: what to know when reading the verdict.
    """

    id: str
    title: str
    place: str
    claim: str
    plan: Plan
    findings: Sequence[Rule]
    tables: Sequence[Tabulate]
    charts: Sequence[Draw]
    deviations: Mapping[str, str]
    seeds: Mapping[str, int] = field(default_factory=lambda: SEEDS)
    baseline: str = "β = 1"
    network: str = ""
    notes: Sequence[str] = ()
    remark: Callable[[Runs], str] | None = None

    @property
    def experiment(self) -> Experiment:
        """The experiment, as commands know it."""
        title = self.title.format(network=self.network)
        trained = self.plan.stand_ins
        at_desk = self.title.format(network=trained)
        if trained and at_desk == title:  # the title does not say the network
            at_desk = f"{title}: {trained}"
        return Experiment(
            id=self.id,
            title=title,
            paper=self.id.partition("-")[0].upper(),
            where=self.place,
            claim=self.claim,
            cells=self.plan.cells,
            conclude=self.conclude,
            seeds={scale: self.plan.most_seeds(scale, n) for scale, n in self.seeds.items()},
            deviations=self.deviations,
            titles={"smoke": at_desk, "desk": at_desk} if trained else {},
        )

    def conclude(self, scope: Scope, finished: Finished) -> Outcome:
        """Return tables, charts, and whether the claim holds."""
        runs = Runs(scope, finished, self.plan, self.baseline)
        found = [
            finding
            for task in runs.judged
            for rule in self.findings
            for finding in rule(runs, task)
        ]
        remark = DIRECTIONS if scope.scale == "desk" and self.plan.stand_ins else ""
        if self.remark is not None:
            remark = self.remark(runs)
        said = verdict(scope.scale, found, remark)
        if scope.scale != "smoke":
            said = replace(said, shortfalls=shortfalls(runs, self.id.rpartition("-")[0]))
        return Outcome(
            verdict=said,
            tables=[table for tabulate in self.tables for table in tabulate(runs)],
            charts=[chart for draw in self.charts for chart in draw(runs)],
            notes=[RULE, *self.notes],
            setup=runs.setup,
        )


# --- how far networks are from the paper's

SOFTMAX_PRINTED: Mapping[tuple[str, str], tuple[str, str, str, str]] = {
    ("gd", "svhn"): ("gd-tab2", "", "SVHN, ResNet18", "β = 1"),
    ("gd", "cifar10"): ("gd-tab2", "", "CIFAR-10, ResNet18", "β = 1"),
    ("gd", "cifar100"): ("gd-tab2", "", "CIFAR-100, ResNet18", "β = 1"),
    ("gd-v1", "svhn"): ("gd-v1-tab3", "", "SVHN, ResNet18", "β = 1"),
    ("gd-v1", "cifar10"): ("gd-v1-tab2", "", "CIFAR-10, ResNet18", "β = 1"),
    ("gd-v1", "cifar100"): ("gd-v1-tab4", "", "CIFAR-100, ResNet18", "β = 1"),
    ("ag", "cifar10"): ("ag-tab4", "", "CIFAR-10, ResNet18", "Soft"),
    ("ag", "cifar100"): ("ag-tab5", "Top-1 accuracy", "CIFAR-100, ResNet34", "Soft"),
    ("lm", "cifar100"): ("lm-tab2", "", "softmax", "error rate"),
    ("lm", "cifar10"): ("lm-tab4", "", "CIFAR-10, WideResNet-28-10", "softmax"),
    ("lm", "svhn"): ("lm-tab4", "", "SVHN, WideResNet-28-10", "softmax"),
}
"""Where a paper, or its first version, prints the accuracy of plain softmax; LM its error rate."""
ERROR_RATES = ("lm",)


def shortfalls(runs: Runs, paper: str) -> list[Shortfall]:
    """Return the judged tasks whose baseline has less than half of the paper's accuracy."""
    found = []
    for task in runs.judged:
        place = SOFTMAX_PRINTED.get((paper, task.data))
        if place is None:
            continue
        table, score, row, column = place
        value = printed_means(table, score)[row][column]
        theirs = 100 - value if paper in ERROR_RATES else value
        has_baseline = runs.has(task, [runs.baseline])
        method = runs.baseline if has_baseline else runs.methods(task)[0].name
        ours = float(ACCURACY.of(runs, task, method).mean())
        if ours < theirs / 2:
            found.append(Shortfall(task.name, round(ours, 4), theirs))
    return found


# --- where the scales differ from the paper's recipe

_SMOKE = (
    "8×8 digits, tiny networks and a few epochs: this proves that the path works, nothing else."
)
_DESK = (
    "Small networks on a stated part of the images (see the setup), sized for two cores and chosen "
    "so that they fit their training images; without augmentation unless said otherwise. The "
    "verdict is about directions at this scale, not about the paper's values. The part of the "
    "images is the same for all seeds; methods of a seed share initial weights and batches."
)
CONNECTED = (
    "Networks are fully connected, which the paper's are not: all methods of a seed are trained "
    "together."
)
USEFUL = "Networks are residual, small, and trained on all images that are there."


def deviations(paper: Sequence[str], desk: Sequence[str] = (CONNECTED,)) -> dict[str, str]:
    """Return the deviations of an experiment by scale; what paper scale says, desk says too."""
    return {"smoke": _SMOKE, "desk": " ".join((_DESK, *desk, *paper)), "paper": " ".join(paper)}


def chosen(*names: str) -> str:
    """Return what was chosen where a paper leaves it open."""
    told = "; ".join(f"{name}: {CHOICES[name]}" for name in names)
    return f"Chosen where the paper leaves it open: {told}."
