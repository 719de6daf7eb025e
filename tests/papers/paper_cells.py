"""The cells of paper scale."""

import json

from smoke_runs import IMAGES


def paper_cells():
    """Return all cells of paper scale, those that differ in their seed once."""
    found = {}
    for experiment in IMAGES:
        for cell in experiment.cells(experiment.scope("paper")):
            found.setdefault(json.dumps({**cell.config, "seed": 0}, sort_keys=True), cell)
    return list(found.values())
