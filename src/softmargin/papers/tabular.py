"""ArcGrad's experiments on tables: Table I on 15 UCI sets, Figures 1 and 2 on Iris.

What is trained, and the rows; :mod:`cross_validation` trains, :mod:`uci` and :mod:`iris` conclude.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softmargin.papers.core import Cell, Experiment, Scope, deferred

Method = Mapping[str, Any]
"""Options of a :class:`TrainingConfig` by their names, and ``"name"``."""

SECONDS_PER_STEP = 12e-6  # of one model among many, on two cores
# AG trains its softmax without a bias (eq. 4), which also gives all heads the same parameters
_NO_BIAS = {"head_options": {"bias": False}}
METHODS: tuple[Method, ...] = (
    {"name": "Soft", **_NO_BIAS},
    {"name": "Center", "center": 0.02, **_NO_BIAS},
    {"name": "M-Soft", "loss": "soft_margin_softmax", "loss_options": {"margin": 0.5}, **_NO_BIAS},
    {"name": "ArcFace", "head": "arcface", "head_options": {"scale": 20.0, "margin": 0.1}},
    {"name": "AdaCos", "head": "adacos"},
    {"name": "ArcGrad 30", "head": "arcgrad", "head_options": {"scale": 30.0}},
    {"name": "ArcGrad 5", "head": "arcgrad", "head_options": {"scale": 5.0}},
    {"name": "β = 5", "loss_options": {"beta": 5.0}, **_NO_BIAS},
    {"name": "β = 0.1", "loss_options": {"beta": 0.1}, **_NO_BIAS},
    {
        "name": "LM, λ = 0.3",
        "loss": "regularized_softmax",
        "loss_options": {"lam": 0.3},
        **_NO_BIAS,
    },
)
PAPER_METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad 30", "ArcGrad 5")
FOLDS = {"smoke": 3, "desk": 10, "paper": 10}
SEEDS = {"smoke": 2, "desk": 10, "paper": 10}
DEPTHS = {"smoke": (1, 4), "desk": tuple(range(1, 11)), "paper": tuple(range(1, 11))}
EPOCHS = {"smoke": (1, 2, 4), "desk": (1, 10, 100), "paper": (1, 10, 100)}
SCALES = (1.0, 40.0)
IRIS, BUNDLED_IRIS = "uci/iris", "iris"


def training(width: int, lr: float, epochs: int, depth: int = 3) -> dict[str, Any]:
    """Return what all models of a table share; layers are counted with the head."""
    return {
        "model": "mlp",
        "model_options": {"width": width, "depth": depth},
        "optimizer": "adam",
        "lr": lr,
        "batch": 32,
        "epochs": epochs,
    }


TRAINING = training(width=32, lr=0.003, epochs=50)  # chosen in docs/choices.md
SMOKE_TRAINING = training(width=16, lr=0.01, epochs=5)


@dataclass(frozen=True)
class UciTable:
    """One of the 15 data sets of Table I.

    Attributes:
        name: the paper's name of the data set.
        data: its name in :mod:`softmargin.data`.
        classes: number of classes.
        rows: number of samples that the paper counts.
        without: features that the paper's count of features leaves out.
    """

    name: str
    data: str
    classes: int
    rows: int
    without: tuple[str, ...] = ()


UCI_TABLES = (
    UciTable("PimaIndiansDiabetes", "uci/pima_indians_diabetes", 2, 392),
    UciTable("Hayes-Roth", "uci/hayes_roth", 3, 160, without=("hobby",)),
    UciTable("UserKnowledgeModeling", "uci/user_knowledge_modeling", 4, 403),
    UciTable("BreastCancerWisconsin", "uci/breast_cancer_wisconsin_prognostic", 2, 194),
    UciTable("WholesaleCustomers", "uci/wholesale_customers", 2, 440),
    UciTable("TeachingAssistantEvaluation", "uci/teaching_assistant_evaluation", 3, 151),
    UciTable("BanknoteAuthentication", "uci/banknote_authentication", 2, 1372),
    UciTable("CongressionalVotingRecords", "uci/congressional_voting_records", 2, 232),
    UciTable("WebsitePhishing", "uci/website_phishing", 3, 1353),
    UciTable("Haberman", "uci/haberman", 2, 306),
    UciTable("Iris", "uci/iris", 3, 150),
    UciTable("BreastTissue", "uci/breast_tissue", 6, 106),
    UciTable("VertebralColumn", "uci/vertebral_column", 3, 310),
    UciTable("ForestTypeMapping", "uci/forest_type_mapping", 4, 523),
    UciTable("BalanceScale", "uci/balance_scale", 3, 625),
)


def uci_cells(scope: Scope) -> list[Cell]:
    """Return one cell per table; at the smoke scale, Iris as scikit-learn brings it."""
    if scope.scale == "smoke":
        (iris,) = (table for table in UCI_TABLES if table.data == IRIS)
        return [_cell(scope, "table", iris, iris.name, SMOKE_TRAINING, METHODS)]
    return [_cell(scope, "table", each, each.name, TRAINING, METHODS) for each in UCI_TABLES]


def depth_cells(scope: Scope) -> list[Cell]:
    """Return one cell per number of layers."""
    (iris,) = (table for table in UCI_TABLES if table.data == IRIS)
    methods = [method for method in METHODS if method["name"] in PAPER_METHODS]
    base = SMOKE_TRAINING if scope.scale == "smoke" else TRAINING
    found = []
    for depth in DEPTHS[scope.scale]:
        shared = {**base, "model_options": {**base["model_options"], "depth": depth}}
        found.append(_cell(scope, "depths", iris, f"Iris, depth {depth}", shared, methods))
    return found


def _cell(
    scope: Scope,
    work: str,
    table: UciTable,
    label: str,
    shared: Mapping[str, Any],
    methods: Sequence[Method],
) -> Cell:
    """Return a cell in which methods are cross-validated on a table."""
    bundled = scope.scale == "smoke"
    runs, folds = list(scope.seeds), FOLDS[scope.scale]
    config = {
        "data": BUNDLED_IRIS if bundled else table.data,
        "without": list(table.without),
        "runs": runs,
        "folds": folds,
        "methods": [dict(method) for method in methods],
        "training": dict(shared),
    }
    steps = math.ceil(table.rows * (1 - 1 / folds) / shared["batch"]) * shared["epochs"]
    layers = shared["model_options"]["depth"] / 3
    seconds = 1 + SECONDS_PER_STEP * steps * len(runs) * folds * len(methods) * layers
    return Cell(work, config, label, seconds, () if bundled else (table.data,))


def angle_cells(scope: Scope) -> list[Cell]:
    """Return the one cell of Figure 1: a few dozen models."""
    smoke = scope.scale == "smoke"
    epochs = list(EPOCHS[scope.scale])
    config = {
        "data": BUNDLED_IRIS if smoke else IRIS,
        "scales": list(SCALES),
        "seeds": list(scope.seeds),
        "epochs": epochs,
        "training": {
            **(training(width=16, lr=0.01, epochs=1) if smoke else TRAINING),
            "precision": "64",
        },
    }
    models = len(SCALES) * len(scope.seeds)
    seconds = 1 + 10 * SECONDS_PER_STEP * 5 * sum(epochs) * models  # few models share a step
    return [Cell("angles", config, f"Iris, {models} models", seconds, () if smoke else (IRIS,))]


EXPERIMENTS = (
    Experiment(
        id="ag-tab1",
        title="Accuracy on 15 UCI tables by repeated cross-validation",
        paper="AG",
        where="Table I",
        claim=(
            "Of seven methods on 15 small tables, ArcGrad with s = 5 has the highest average "
            "accuracy and is the best on the largest number of tables."
        ),
        cells=uci_cells,
        conclude=deferred("softmargin.papers.uci:conclude"),
        seeds=SEEDS,
        deviations={
            "smoke": "Iris alone, 2 runs of 3 folds, 5 epochs: only proves that the path works.",
            "desk": (
                "The paper's size. Width, optimiser, learning rate, batch and epochs are not in "
                "the paper: they were chosen once on validation rows by plain softmax, the same "
                "for all methods and tables (docs/choices.md). Parameters of ArcFace, Center and "
                "M-Soft are those the paper gives for CIFAR."
            ),
            "paper": "As desk.",
        },
    ),
    Experiment(
        id="ag-fig1",
        title="Angles and their gradients in three phases of training on Iris",
        paper="AG",
        where="Figure 1",
        claim=(
            "The scale alone sets a margin between angles, about 84° for s = 1 and 2° for s = 40: "
            "samples with a smaller gap get a large gradient, until hardly any are left there."
        ),
        cells=angle_cells,
        conclude=deferred("softmargin.papers.iris:conclude_angles"),
        seeds=SEEDS,
        deviations={
            "smoke": "Iris as scikit-learn brings it, 1, 2 and 4 epochs: only proves the path.",
            "desk": (
                "The paper gives neither the network nor which moments its three phases are. "
                "Here: the network of ag-tab1, trained on all rows, after 1, 10 and 100 epochs, "
                "and several seeds instead of one picture."
            ),
            "paper": "As desk.",
        },
    ),
    Experiment(
        id="ag-fig2",
        title="Accuracy by number of layers on Iris",
        paper="AG",
        where="Figure 2",
        claim=(
            "Of all methods ArcGrad loses the least accuracy as layers are added; at 10 layers "
            "Soft, ArcFace and AdaCos are at about 33 %, which is guessing."
        ),
        cells=depth_cells,
        conclude=deferred("softmargin.papers.iris:conclude_depths"),
        seeds=SEEDS,
        deviations={
            "smoke": "Iris as scikit-learn brings it, depths 1 and 4, 2 runs of 3 folds, 5 epochs.",
            "desk": (
                "The paper's size. Its figure has numbers only in words for 10 layers, and does "
                "not say which s its ArcGrad has: both of Table I are shown. Width, optimiser "
                "and epochs are those of ag-tab1 (docs/choices.md)."
            ),
            "paper": "As desk.",
        },
    ),
)
