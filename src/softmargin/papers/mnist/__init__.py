"""The gradient-decay paper's experiments on MNIST: Table 1 and Figures 1, 3, 4 and 5."""

from softmargin.papers.core import Experiment
from softmargin.papers.mnist.curves import FIGURE_4, FIGURE_5
from softmargin.papers.mnist.figure1 import FIGURE_1
from softmargin.papers.mnist.figure3 import FIGURE_3
from softmargin.papers.mnist.table1 import TABLE_1
from softmargin.papers.mnist.training import train_seed

EXPERIMENTS: tuple[Experiment, ...] = (FIGURE_1, TABLE_1, FIGURE_3, FIGURE_4, FIGURE_5)

__all__ = ["EXPERIMENTS", "train_seed"]
