"""ArcGrad's experiments on tables: Table I on 15 UCI sets, Figures 1 and 2 on Iris."""

from softmargin.papers.core import Experiment
from softmargin.papers.tabular import iris, uci

EXPERIMENTS: tuple[Experiment, ...] = (*uci.EXPERIMENTS, *iris.EXPERIMENTS)
