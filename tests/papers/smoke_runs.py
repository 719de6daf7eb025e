"""Every experiment of a family at smoke scale, through the store that users' runs take."""

from softmargin.papers import ag, beyond, gd, gd_curves, gd_groups, gd_mnist, lm
from softmargin.papers.provenance import completed

MNIST = tuple(row.experiment for row in (*gd_mnist.ROWS, *gd_groups.ROWS, *gd_curves.ROWS))
IMAGES = tuple(
    each
    for module in (gd, lm, ag, beyond)
    for each in module.EXPERIMENTS
    if each.id not in {own.id for own in MNIST}
)


def run_all(experiments, store):
    """Return the finished cells of every experiment, by id."""
    found = {}
    for experiment in experiments:
        own = experiment.cells(experiment.scope("smoke"))
        for cell in own:
            store.run(cell)
        # as it was measured: what conclusions read is rounded
        found[experiment.id] = [(cell, completed(cell, store._full(cell))) for cell in own]
    return found


def conclude_all(experiments, finished):
    """Return the outcome of every experiment, by id."""
    return {each.id: each.conclude(each.scope("smoke"), finished[each.id]) for each in experiments}
