"""The gradient-decay paper: all rows, of MNIST and of images."""

from __future__ import annotations

from softmargin.papers import gd_curves, gd_figures, gd_groups, gd_mnist, gd_tables

ROWS = (
    *gd_mnist.ROWS,
    *gd_groups.ROWS,
    *gd_curves.ROWS,
    *gd_tables.ROWS,
    *gd_figures.ROWS,
)
EXPERIMENTS = tuple(row.experiment for row in ROWS)
