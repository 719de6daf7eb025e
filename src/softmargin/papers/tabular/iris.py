"""ag-fig1 and ag-fig2: ArcGrad on Iris, its angles and gradients, and accuracy by depth."""

from __future__ import annotations

from softmargin.papers.core import Experiment
from softmargin.papers.tabular import iris_angles, iris_depths
from softmargin.papers.tabular.iris_angles import train_angles
from softmargin.papers.tabular.iris_depths import train_depths

__all__ = ["EXPERIMENTS", "train_angles", "train_depths"]

EXPERIMENTS = (
    Experiment(
        id="ag-fig1",
        title="Angles and their gradients in three phases of training on Iris",
        paper="AG",
        where="Figure 1",
        claim=(
            "The scale alone sets a margin between angles, about 84° for s = 1 and 2° for s = 40: "
            "samples with a smaller gap get a large gradient, until hardly any are left there."
        ),
        cells=iris_angles.cells,
        conclude=iris_angles.conclude,
        seeds={"smoke": 2, "desk": 10, "paper": 10},
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
        cells=iris_depths.cells,
        conclude=iris_depths.conclude,
        seeds={"smoke": 2, "desk": 10, "paper": 10},
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
