"""LM Tables 3 and 4: fewer images and wrong labels, and other large-margin methods."""

from __future__ import annotations

import numpy as np

from softmargin.charts import Chart
from softmargin.papers.core import Experiment, Finished, Scope
from softmargin.papers.findings import BAND, Floats
from softmargin.papers.images import desk, lm_numbers, recipes, words
from softmargin.papers.images.charts import differences
from softmargin.papers.images.desk import MARGINS, fewer, polluted
from softmargin.papers.images.findings import RULE, compare, of_score, verdict
from softmargin.papers.images.lm_ablation import OURS, SEEDS, SUPPLEMENT
from softmargin.papers.images.methods import (
    AS_PUBLISHED,
    BOTH,
    HINGE,
    L_SOFTMAX_AS_PUBLISHED,
    LGM_AS_PUBLISHED,
    MODIFIED,
    SOFTMAX,
    Method,
)
from softmargin.papers.images.runs import (
    ERROR,
    TRAINED,
    Runs,
    compared_table,
    in_column,
    method_band,
    score_table,
)
from softmargin.papers.images.tasks import Plan
from softmargin.papers.outcome import Outcome

# --- Table 3

PLAN_3 = Plan(
    [(desk.DEGENERATE, desk.DEGENERATE.methods)],
    [
        (
            recipes.ABLATION,
            (
                *(fewer(method, share) for share in lm_numbers.FRACTIONS for method in MARGINS),
                *(polluted(method, share) for share in lm_numbers.POLLUTED for method in MARGINS),
            ),
        )
    ],
)


def conclude_degenerate(setting: Scope, finished: Finished) -> Outcome:
    """Return error rates with fewer images and wrong labels, and whether regularising helps."""
    runs = Runs(setting, finished, PLAN_3)
    (task,) = runs.tasks
    values = {}
    for method in runs.methods(task):
        name, _, condition = method.name.rpartition(", ")
        values[name, condition] = ERROR.of(runs, task, method)
    conditions = list(dict.fromkeys(condition for _, condition in values))
    table = compared_table(
        runs,
        ERROR,
        values,
        lambda key: (SOFTMAX.name, key[1]),
        {} if setting.scale == "smoke" else lm_numbers.TABLE_3,
        "Differences are against plain softmax in the same column.",
    )
    strongest = MARGINS[-1].name
    found = [
        compare(
            f"with {condition}, the error in %",
            in_column(values, condition),
            (name, SOFTMAX.name),
            -1,
        )
        for name in (OURS.name, strongest)
        for condition in conditions
    ]
    charts = [
        _by_condition(runs, values, [each for each in conditions if kind in each], kind)
        for kind in ("of the images", "polluted")
    ]
    return Outcome(verdict(setting, found), [table], charts, [RULE], runs.setup)


def _by_condition(
    runs: Runs, values: dict[tuple[str, str], Floats], conditions: list[str], kind: str
) -> Chart:
    shares = [float(each.split()[0]) for each in conditions]
    series = []
    for method in MARGINS:
        gains = [values[SOFTMAX.name, c] - values[method.name, c] for c in conditions]
        if method != SOFTMAX:
            series.append(method_band(method, shares, np.stack(gains, 1)))
    title = "with fewer images" if kind == "of the images" else "with wrong labels"
    return Chart(
        "gain-" + kind.replace(" ", "-"),
        f"What regularised logits gain {title}",
        "line",
        f"share {'of the images' if kind == 'of the images' else 'of wrong labels'}",
        "error of softmax less own error (points of %)",
        series,
        note=f"{runs.note}; {BAND}.",
    )


# --- Table 4

SIX = (SOFTMAX, HINGE, MODIFIED, LGM_AS_PUBLISHED, L_SOFTMAX_AS_PUBLISHED, OURS)
RECIPES = (
    "The recipes are in a supplement: WideResNet and its data follow its authors, the networks on "
    "ImageNet and Places-365 train for 90 epochs with the learning rate of the paper's ablation, "
    "VGG-16 with batch normalisation and a tenth of that rate; those are trained once, as in the "
    "paper."
)


def _printed(row: str) -> tuple[Method, ...]:
    """Return the methods that the paper has in a row."""
    return tuple(method for method in (*SIX, BOTH) if method.name in lm_numbers.TABLE_4[row])


PLAN_4 = Plan(
    [(desk.MARGINS_10, desk.LARGE_MARGIN), (desk.MARGINS_SVHN, desk.LARGE_MARGIN)],
    [
        (task, _printed(task.beside))
        for task in (recipes.WIDE_10, recipes.WIDE_SVHN, *recipes.IMAGENET, recipes.PLACES)
    ],
)
BESIDE = {
    row: {
        name: (mean, sds[name]) if (sds := lm_numbers.TABLE_4_SD.get(row, {})) else mean
        for name, mean in means.items()
    }
    for row, means in lm_numbers.TABLE_4.items()
}


def conclude_methods(setting: Scope, finished: Finished) -> Outcome:
    """Return error rates of large-margin methods, and whether the paper's order is seen."""
    runs = Runs(setting, finished, PLAN_4)
    tables = [
        score_table(runs, ERROR, SOFTMAX.name, BESIDE, note="Differences are against softmax."),
        score_table(runs, TRAINED, SOFTMAX.name),
    ]
    judged = ((OURS.name, -1), (MODIFIED.name, -1), (HINGE.name, 1), (BOTH.name, -1))
    found = [
        of_score(runs, ERROR, task, (name, SOFTMAX.name), sign)
        for task in runs.tasks
        for name, sign in judged
        if name in {method.name for method in runs.methods(task)}
    ]
    charts = [differences(runs, ERROR, SOFTMAX.name)]
    return Outcome(verdict(setting, found), tables, charts, [RULE], runs.setup)


EXPERIMENTS = (
    Experiment(
        *("lm-tab3", "Fewer training images and wrong labels", "LM", "Table 3"),
        "With fewer images or wrong labels regularised logits keep a lower error than softmax, "
        "more so with a larger λ.",
        PLAN_3.cells,
        conclude_degenerate,
        seeds=SEEDS,
        deviations=words.deviations(
            (SUPPLEMENT,),
            (words.CONNECTED, words.OTHER_STEPS, "Shares of images are of the part."),
        ),
    ),
    Experiment(
        *("lm-tab4", "Large-margin methods on deep networks", "LM", "Table 4"),
        "Regularised logits lower the error of softmax on every network; the modified softmax "
        "does so too, and the two together most; the hinge loss fails.",
        PLAN_4.cells,
        conclude_methods,
        seeds=SEEDS,
        deviations=words.deviations(
            (RECIPES, words.chosen("LGM", "L-Softmax")),
            (
                words.CONNECTED,
                "LGM has a third of the others' learning rate: with theirs it fits half its "
                "images.",
                "ImageNet and Places-365 have no stand-in at this scale.",
            ),
        )
        | {"paper": f"{RECIPES} {AS_PUBLISHED}"},
    ),
)
