"""Every experiment of a module at smoke scale, through the store that users' runs take."""


def run_all(experiments, store):
    """Return the finished cells of every experiment, by id."""
    found = {}
    for experiment in experiments:
        own = experiment.cells(experiment.scope("smoke"))
        for cell in own:
            store.run(cell)
        found[experiment.id] = [(cell, store.result(cell)) for cell in own]
    return found


def conclude_all(experiments, finished):
    """Return the outcome of every experiment, by id."""
    return {each.id: each.conclude(each.scope("smoke"), finished[each.id]) for each in experiments}
