"""The large-margin paper on images: Tables 1 to 4 and Figure 3."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softmargin.papers import desk, recipes
from softmargin.papers import methods as m
from softmargin.papers.charts import ByAmount, ByEpoch, Differences
from softmargin.papers.desk import SMOOTHED
from softmargin.papers.findings import Compare, compare
from softmargin.papers.grid import Method, Plan, Task, each, shrunk
from softmargin.papers.outcome import Finding
from softmargin.papers.printed import printed
from softmargin.papers.rows import CONNECTED, Row, chosen, deviations
from softmargin.papers.runs import ERROR, TRAINED, Runs, Score
from softmargin.papers.tables import AmountTable, MethodTable, ScoreTable

OURS = m.regularized(0.3)
SUPPLEMENT = (
    "The 13-layer network is that of the author's published code; whether images were augmented is "
    "not printed: crops with 4 pixels of padding and flips."
)
OTHER_STEPS = "Batch, learning rate and epochs are others than the paper's (see the setup)."
_RESIDUAL = (
    "Residual networks are small, and trained on all images that are there, augmented. Their "
    "batch, learning rate and weight decay are those that gd-tab4 has on CIFAR-100 with "
    "augmentation, for half the epochs; no others were tried."
)
WITH_CONNECTED = (
    "Fully connected networks stand beside them, on images reduced to 16×16, without "
    "augmentation, with more seeds: all methods of a seed are trained together. An earlier run of "
    "five seeds, on whole images, was concluded from before the residual networks were trained.",
    OTHER_STEPS,
)
RESIDUAL = deviations((SUPPLEMENT,), (_RESIDUAL, *WITH_CONNECTED))
SMALL = shrunk(desk.ABLATION_RESIDUAL)  # fewer methods: each network is trained by itself

# --- divergences by λ: Table 1

LAMBDAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def symmetric_against_reverse(runs: Runs, task: Task) -> list[Finding]:
    """Find whether the mean over all λ is lower for D̃ than for the divergence from q."""
    values = runs.by_amount(ERROR, task)
    means = {row: np.mean(list(own.values()), axis=0) for row, own in values.items()}
    what, names = f"on {task.name}, the error in %, mean over all λ,", ("D̃(q)", "D(q‖u)")
    return [compare(what, means, names, -1)]


TABLE_1 = Row(
    id="lm-tab1",
    title="Error rate by divergence and λ",
    place="Table 1",
    claim="All three divergences lower the error, more so with a larger λ; the symmetric one and "
    "D(u‖q) a little more than D(q‖u).",
    plan=Plan(
        desk=[
            (desk.ABLATION_RESIDUAL, (m.SOFTMAX, *desk.RESIDUAL_DIVERGENCES)),
            (desk.ABLATION, desk.ABLATION.methods),
        ],
        smoke=[
            (SMALL, (m.SOFTMAX, *(m.regularized(0.3, d) for d in m.DIVERGENCES))),
            (shrunk(desk.ABLATION), desk.ABLATION.methods),
        ],
        paper=[
            (
                recipes.ABLATION,
                (m.SOFTMAX, *(m.regularized(lam, d) for d in m.DIVERGENCES for lam in LAMBDAS)),
            )
        ],
    ),
    findings=(
        *(Compare(ERROR, m.regularized(0.3, row).name, -1) for row in m.DIVERGENCES),
        *(
            Compare(ERROR, m.regularized(0.9, row).name, -1, other=m.regularized(0.1, row).name)
            for row in m.DIVERGENCES
        ),
        symmetric_against_reverse,
    ),
    tables=(
        AmountTable(
            ERROR,
            paper="lm-tab1",
            plain="λ = 0",
            plain_paper=("lm-tab2", m.SOFTMAX.name, "error rate"),
            note="λ = 0 is plain softmax, which the others are compared with.",
        ),
    ),
    charts=(ByAmount(ERROR, "error-by-lambda", "Error rate by λ", "λ", "error rate (%)"),),
    deviations=RESIDUAL,
    baseline=m.SOFTMAX.name,
)

# --- related methods: Table 2

TABLE_2 = Row(
    id="lm-tab2",
    title="Error rate of related methods",
    place="Table 2",
    claim="Regularised logits beat plain softmax, label smoothing with any λ, and a "
    "super-symmetric classifier.",
    plan=Plan(
        desk=each([desk.ABLATION_RESIDUAL, desk.RELATED], desk.RELATED.methods),
        paper=[(recipes.ABLATION, desk.RELATED.methods)],
        smoke=[
            (SMALL, (m.SOFTMAX, m.SUPER_SYMMETRY, SMOOTHED[2], OURS)),
            (shrunk(desk.RELATED), desk.RELATED.methods),
        ],
    ),
    findings=[
        Compare(ERROR, OURS.name, -1, other=other.name)
        for other in (m.SOFTMAX, *SMOOTHED, m.SUPER_SYMMETRY)
    ],
    tables=(
        MethodTable(
            "Error rate",
            [replace(ERROR, title="error rate")],
            paper="lm-tab2",
            note="Differences are against plain softmax.",
        ),
        ScoreTable(TRAINED),
    ),
    charts=(Differences(ERROR),),
    deviations=RESIDUAL,
    baseline=m.SOFTMAX.name,
)

# --- the bias ρ̂ during training: Figure 3


BIAS = Score("Mean ρ̂ of training samples", array="mean_bias", unit="nats", digits=3)
FIRST = replace(BIAS, title="first", reduce=lambda curves: curves[:, 0])
LOWEST = replace(BIAS, title="lowest", reduce=lambda curves: curves.min(1))
LAST = replace(
    BIAS,
    title="last",
    reduce=lambda curves: curves[:, -1],
    phrase="mean ρ̂ in the last epoch",
)
RISE = replace(
    BIAS,
    title="last − lowest",
    reduce=lambda curves: curves[:, -1] - curves.min(1),
    phrase="the rise of mean ρ̂ from its lowest to its last epoch",
)


def falls_with_softmax(runs: Runs, task: Task) -> list[Finding]:
    """Find whether mean ρ̂ of softmax is lower in the last epoch than in the first."""
    values = {score.title: score.of(runs, task, m.SOFTMAX) for score in (LAST, FIRST)}
    return [compare(f"on {task.name}, mean ρ̂ of softmax", values, ("last", "first"), -1, 3)]


_CURVES = (m.SOFTMAX, SMOOTHED[2], OURS)
FIGURE_3 = Row(
    id="lm-fig3",
    title="Bias ρ̂ during training",
    place="Figure 3",
    claim="Plain softmax lets ρ̂ fall all through training; with regularised logits or label "
    "smoothing it falls at first and then rises.",
    plan=Plan(
        desk=each([desk.ABLATION_RESIDUAL, desk.RELATED], _CURVES),
        paper=[(recipes.ABLATION, _CURVES)],
        smoke=each([SMALL, shrunk(desk.RELATED)], _CURVES),
    ),
    findings=(
        Compare(RISE, SMOOTHED[2].name, 1),
        Compare(RISE, OURS.name, 1),
        Compare(LAST, OURS.name, 1),
        falls_with_softmax,
    ),
    tables=(
        MethodTable(
            BIAS.title,
            (FIRST, LOWEST, LAST, RISE),
            note="The paper has curves only. Differences are against plain softmax.",
        ),
    ),
    charts=(ByEpoch(BIAS, "mean-bias", note="With K classes uniform logits have log(K − 1)."),),
    deviations=RESIDUAL,
    baseline=m.SOFTMAX.name,
)

# --- fewer images and wrong labels: Table 3

FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5)
WRONG = (0.1, 0.2, 0.3, 0.4, 0.5)
HARDER = ((m.fewer, FRACTIONS), (m.mislabelled, WRONG))
MARGINS = (m.SOFTMAX, *(m.regularized(lam) for lam in (0.3, 0.5, 1.0)))
TABLE_3 = Row(
    id="lm-tab3",
    title="Fewer training images and wrong labels",
    place="Table 3",
    claim="With fewer images or wrong labels regularised logits keep a lower error than softmax, "
    "more so with a larger λ.",
    plan=Plan(
        desk=[
            (desk.ABLATION_RESIDUAL, desk.DEGENERATE_RESIDUAL),
            (desk.DEGENERATE, desk.DEGENERATE.methods),
        ],
        smoke=[
            (SMALL, desk.degenerate(desk.FRACTIONS[-1:], desk.WRONG[:1], (m.SOFTMAX, OURS))),
            (shrunk(desk.DEGENERATE), desk.DEGENERATE.methods),
        ],
        paper=[
            (
                recipes.ABLATION,
                tuple(
                    make(method, share)
                    for make, shares in HARDER
                    for share in shares
                    for method in MARGINS
                ),
            )
        ],
    ),
    findings=[
        Compare(ERROR, make(method, share).name, -1, other=make(other, share).name)
        for method, other in ((OURS, m.SOFTMAX), (MARGINS[-1], m.SOFTMAX), (MARGINS[-1], OURS))
        for make, shares in HARDER
        for share in shares
    ],
    tables=(
        AmountTable(
            ERROR,
            paper="lm-tab3",
            note="Differences are against plain softmax in the same column.",
        ),
    ),
    charts=[
        ByAmount(
            ERROR,
            name=name,
            title=f"What regularised logits gain with {harder}",
            x_label=f"share of {share}",
            y_label="error of softmax less own error (points of %)",
            option=option,
            gain=True,
        )
        for name, harder, share, option in (
            ("gain-of-the-images", "fewer images", "the images", "fraction"),
            ("gain-polluted", "wrong labels", "wrong labels", "pollute"),
        )
    ],
    deviations=deviations(
        (SUPPLEMENT,),
        (
            _RESIDUAL,
            *WITH_CONNECTED,
            "Residual networks have fewer shares. Shares of images are of the part.",
        ),
    ),
    baseline=m.SOFTMAX.name,
)

# --- large-margin methods: Table 4

HALF_A_POINT = 0.5  # of error, that counts as equal

RECIPES = (
    "The recipes are in a supplement: WideResNet and its data follow its authors, the networks on "
    "ImageNet and Places-365 train for 90 epochs with the learning rate of the paper's ablation, "
    "VGG-16 with batch normalisation and a tenth of that rate; those are trained once, as in the "
    "paper."
)
AS_PUBLISHED = (
    "L-Softmax and LGM are annealed by step as their authors do: λ = 1000·(1 + 0.000025·t)⁻³⁵, and "
    "α = 0.1, twice that after 5,000 steps, 0.3 after 10,000. Chosen where neither paper says it: "
    "k = 4 for L-Softmax, the likelihood term of LGM with λ = 0.01."
)


def _in_print(task: Task) -> tuple[Method, ...]:
    """Return the methods that the paper has in a task's row."""
    row = printed("lm-tab4")[task.paper_row]
    known = (
        m.SOFTMAX,
        m.HINGE,
        m.MODIFIED,
        m.LGM_AS_PUBLISHED,
        m.L_SOFTMAX_AS_PUBLISHED,
        OURS,
        m.BOTH,
    )
    return tuple(method for method in known if method.name in row)


_DEEP = (recipes.WIDE_10, recipes.WIDE_SVHN, *recipes.IMAGENET, recipes.PLACES)
TABLE_4 = Row(
    id="lm-tab4",
    title="Large-margin methods on deep networks",
    place="Table 4",
    claim="Regularised logits lower the error of softmax on every network; the modified softmax "
    "does so too, and the two together most; the hinge loss fails. L-Softmax and LGM are at most "
    "half a point better.",
    plan=Plan(
        desk=[(desk.MARGINS_10, desk.LARGE_MARGIN), (desk.MARGINS_SVHN, desk.LARGE_MARGIN)],
        paper=[(task, _in_print(task)) for task in _DEEP],
    ),
    findings=(
        Compare(ERROR, OURS.name, -1),
        Compare(ERROR, m.MODIFIED.name, -1),
        Compare(ERROR, m.HINGE.name, 1),
        *(
            Compare(ERROR, m.BOTH.name, -1, other=each.name)
            for each in (m.SOFTMAX, OURS, m.MODIFIED)
        ),
        *(
            Compare(ERROR, OURS.name, -1, other=rival.name, margin=HALF_A_POINT)
            for rival in (m.L_SOFTMAX, m.LGM)
        ),
    ),
    tables=(
        ScoreTable(ERROR, paper="lm-tab4", note="Differences are against softmax."),
        ScoreTable(TRAINED),
    ),
    charts=(Differences(ERROR),),
    deviations={
        **deviations(
            (RECIPES, chosen("LGM", "L-Softmax")),
            (
                CONNECTED,
                "LGM has a third of the others' learning rate: with theirs it fits half its "
                "images.",
                "ImageNet and Places-365 have no stand-in at this scale.",
            ),
        ),
        "paper": f"{RECIPES} {AS_PUBLISHED}",
    },
    baseline=m.SOFTMAX.name,
)

# --- one pair of logits: Section 3


def untrained(runs: Runs, task: Task) -> list[Finding]:
    """Find whether networks of the hinge loss of one pair fit less than half of their images."""
    values = {m.MAX_HINGE.name: TRAINED.of(runs, task, m.MAX_HINGE)}
    names = (m.MAX_HINGE.name, "half of the images")
    values["half of the images"] = np.full_like(values[m.MAX_HINGE.name], 50.0)
    return [compare(f"on {task.name}, training accuracy in %", values, names, -1)]


_PAIRS = (m.beta(1), m.HINGE, m.MAX_HINGE)
SECTION_3 = Row(
    id="lm-sec3",
    title="Hinge loss of the largest other logit alone",
    place="Section 3",
    claim="A convolutional network is not trained at all by the hinge loss of its two deciding "
    "logits, whose gradient is too sparse; the mean over all others (14) trains it.",
    plan=Plan(
        desk=[(desk.USEFUL_100, _PAIRS)],
        paper=[(recipes.ABLATION, _PAIRS)],
    ),
    findings=(
        untrained,
        Compare(TRAINED, m.MAX_HINGE.name, -1, other=m.HINGE.name),
        Compare(ERROR, m.MAX_HINGE.name, 1),
    ),
    tables=(ScoreTable(TRAINED), ScoreTable(ERROR, note="Differences are against softmax.")),
    charts=(Differences(ERROR),),
    deviations=deviations(
        (SUPPLEMENT, "The paper tells this of first experiments and prints no numbers."),
        ("The network is residual and has batch normalisation.",),
    ),
)

ROWS = (TABLE_1, TABLE_2, FIGURE_3, TABLE_3, TABLE_4, SECTION_3)
EXPERIMENTS = tuple(row.experiment for row in ROWS)
