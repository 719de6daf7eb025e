"""The gradient-decay paper's tables of images: Tables 2 to 6, and those of its first version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softmargin.papers import desk, recipes
from softmargin.papers.charts import Bars, ByBeta, Differences
from softmargin.papers.findings import Best, Compare, Monotone, Rule, compare
from softmargin.papers.grid import Method, Plan, Task, each, shrunk
from softmargin.papers.methods import (
    A_SOFTMAX,
    CENTER_LOSS,
    SCALINGS,
    beta,
    betas,
    warm_up,
)
from softmargin.papers.outcome import Finding
from softmargin.papers.rows import CONNECTED, USEFUL, Row, chosen, deviations
from softmargin.papers.runs import (
    ACCURACY,
    CONFIDENCE,
    ECE,
    MCE,
    TOP_5,
    TRAINED,
    Runs,
    Score,
)
from softmargin.papers.tables import ScoreTable

FIVE = betas(5, 2, 1, 0.1, 0.01)
UP_TO_50 = betas(50, 20, 10, 5, 1, 0.1)
UP_TO_20 = betas(20, 10, 5, 1, 0.1, 0.01)
WARM, WARM_UP = warm_up(0.1, 1), warm_up(1, 5)
CONSTANT = tuple(each.name for each in FIVE)
HALF_A_POINT, TWO_POINTS, A_HUNDREDTH = 0.5, 2.0, 0.01  # the worse, or apart, that are allowed
SMALL_DATA, LARGE_DATA = ("svhn", "cifar10"), ("cifar100",)  # which prefer a small or large β

ON_SMALL = "Those on SVHN and Tiny-ImageNet are fully connected."
NOT_TWO = "Residual networks were not trained with β = 2."
AUGMENTED = "With augmentation there is constant β alone."
ON_TINY = "Those on Tiny-ImageNet are fully connected; wider ones are in gd-tab6."
COMPANION = "Fully connected networks on the same images are in gd-v1-tab4."
BY_HELD_OUT = (
    "Of two weight decays for CIFAR-100 with augmentation, 0.0002 and 0.001, the better one for "
    "β = 1 was taken, by accuracy on held-out images, one seed."
)
CLIPPED = (
    'The recipe for Tiny-ImageNet asks for "weight clipping": this is read as clipping the '
    "gradient to a norm of 3, as in the recipes for the other data."
)
OPEN = "The paper prints one run and no spread; here there are several seeds."
VGG = "VGG16 has batch normalisation; ResNet35 is taken for ResNet34."
ENDS = "The ends of the warm-up are not printed for these data: 0.1→1 as in the second version."

RESIDUAL_BETAS = betas(5, 1, 0.1, 0.01)
RESIDUAL_METHODS = (*RESIDUAL_BETAS, WARM, A_SOFTMAX, CENTER_LOSS)

# --- accuracy: Table 2, and Tables 2 to 5 of the first version


def accuracy_row(
    name: str,
    title: str,
    place: str,
    claim: str,
    plan: Plan,
    said: Mapping[str, str],
    score: Score = ACCURACY,
    more: Sequence[Rule] = (),
) -> Row:
    """Return a table of accuracy by β: which side of β = 1 data prefer, the warm-up, and more."""
    return Row(
        id=name,
        title=title,
        place=place,
        claim=claim,
        plan=plan,
        findings=(
            Compare(score, "β = 0.1", 1, data=SMALL_DATA),
            Compare(score, "β = 5", -1, data=SMALL_DATA),
            Compare(score, "β = 5", 1, data=LARGE_DATA),
            Compare(score, "β = 0.01", -1, data=LARGE_DATA),
            Compare(score, WARM.name, 1),
            Compare(score, WARM_UP.name, 1),
            *more,
        ),
        tables=(ScoreTable(score, paper=name), ScoreTable(TRAINED)),
        charts=(Differences(score),),
        deviations=said,
    )


_ALL = (*FIVE, WARM, A_SOFTMAX, CENTER_LOSS)
_TABLE_2 = Plan(
    desk=[
        (desk.USEFUL_10, RESIDUAL_BETAS),
        (desk.USEFUL_10_PLAIN, RESIDUAL_METHODS),
        (desk.USEFUL_100_AUGMENTED, RESIDUAL_BETAS),
        (desk.USEFUL_100, RESIDUAL_METHODS),
        *each([desk.SVHN, desk.TINY], _ALL),
    ],
    paper=each([*recipes.SVHN, *recipes.CIFAR10, *recipes.CIFAR100, recipes.TINY_34], _ALL),
    smoke=[
        (shrunk(desk.USEFUL_10_PLAIN), RESIDUAL_BETAS),
        (shrunk(desk.USEFUL_100), RESIDUAL_METHODS),
        *each([shrunk(desk.SVHN), shrunk(desk.TINY)], _ALL),
    ],
)


def _first(at_desk: Task, tasks: Sequence[Task], warm: Method) -> Plan:
    """Return a table of the first version: one data set, all networks, no augmentation."""
    return Plan(desk=each([at_desk], (*FIVE, warm)), paper=each(tasks, (*FIVE, warm)))


_SMALL_IS_BETTER = "Every network gains from β below 1 and from a warm-up, and loses with β = 5."
_FIRST = (OPEN, chosen("warm-up"), VGG)
ACCURACY_ROWS = (
    accuracy_row(
        "gd-tab2",
        "Top-1 accuracy by β, data and network",
        "Table 2",
        "SVHN and CIFAR-10 gain from a small β (0.1 above 1 above 5), CIFAR-100 from a large one; "
        "a warm-up of β from 0.1 to 1 is better than every constant β, and at most half a point "
        "below A-Softmax and center loss.",
        _TABLE_2,
        deviations(
            (
                OPEN,
                chosen("warm-up", "A-Softmax", "center loss"),
                VGG,
                "Augmentation is not printed: the level of its numbers speaks for it on all but "
                "SVHN.",
                CLIPPED,
            ),
            (USEFUL, NOT_TWO, AUGMENTED, ON_SMALL, BY_HELD_OUT),
        ),
        more=(
            Best(ACCURACY, WARM.name, among=CONSTANT),
            *(
                Compare(ACCURACY, WARM.name, 1, other=rival.name, margin=HALF_A_POINT)
                for rival in (A_SOFTMAX, CENTER_LOSS)
            ),
        ),
    ),
    accuracy_row(
        "gd-v1-tab2",
        "Top-1 accuracy on CIFAR-10 without augmentation",
        "Table 2 of its first version",
        _SMALL_IS_BETTER,
        _first(desk.CIFAR10, recipes.CIFAR10_PLAIN, WARM),
        deviations((*_FIRST, ENDS)),
    ),
    accuracy_row(
        "gd-v1-tab3",
        "Top-1 accuracy on SVHN",
        "Table 3 of its first version",
        _SMALL_IS_BETTER,
        _first(desk.SVHN, recipes.SVHN, WARM),
        deviations((*_FIRST, ENDS)),
    ),
    accuracy_row(
        "gd-v1-tab4",
        "Top-1 accuracy on CIFAR-100 without augmentation",
        "Table 4 of its first version",
        "Every network prefers a large β, and a warm-up from 1 to 5 to any constant one.",
        _first(desk.CIFAR100, recipes.CIFAR100_PLAIN, WARM_UP),
        deviations(_FIRST),
        more=(Best(ACCURACY, WARM_UP.name, among=CONSTANT),),
    ),
    accuracy_row(
        "gd-v1-tab5",
        "Top-5 accuracy on CIFAR-100 without augmentation",
        "Table 5 of its first version",
        "Top-5 accuracy, too, is better with a large β, and with a warm-up from 1 to 5.",
        _first(desk.CIFAR100, recipes.CIFAR100_PLAIN, WARM_UP),
        deviations(_FIRST),
        TOP_5,
    ),
)

# --- calibration: Tables 3 to 6

_FOUR = betas(20, 10, 1, 0.1)
_HARD = ("cifar100", "tiny_imagenet")
_WHOLE = (*recipes.CIFAR100[:3], recipes.CIFAR10[0], recipes.TINY_34, recipes.TINY_50)
_TEN_BINS = "Over 10 bins of equal width."
TABLE_3 = Row(
    id="gd-tab3",
    title="Calibration by β against post-hoc scaling",
    place="Table 3",
    claim="ECE falls as β grows; on CIFAR-100 and Tiny-ImageNet a large β has an ECE at most "
    "0.01 above that of temperature or vector scaling of β = 1.",
    plan=Plan(
        desk=[
            *each([desk.USEFUL_100, desk.USEFUL_100_AUGMENTED], _FOUR),
            *each([desk.USEFUL_10_PLAIN, desk.USEFUL_10, desk.TINY], _FOUR),
        ],
        paper=[*each(_WHOLE, _FOUR), *each([recipes.held_out(t) for t in _WHOLE], [beta(1)])],
        smoke=each([shrunk(task) for task in (desk.USEFUL_100, desk.USEFUL_10, desk.TINY)], _FOUR),
        scalings=SCALINGS,
    ),
    findings=(
        Compare(ECE, "β = 20", -1),
        Compare(ECE, "β = 0.1", 1),
        *(
            Compare(ECE, "β = 20", -1, other=each.name, data=_HARD, margin=A_HUNDREDTH)
            for each in SCALINGS
        ),
    ),
    tables=(
        ScoreTable(ECE, paper="gd-tab3", printed_as="ECE", scaled=True, note=_TEN_BINS),
        ScoreTable(MCE, paper="gd-tab3", printed_as="MCE", scaled=True, note=_TEN_BINS),
        ScoreTable(ACCURACY),
        ScoreTable(TRAINED),
    ),
    charts=(Bars(ECE, scaled=True), Bars(MCE, scaled=True)),
    deviations=deviations(
        (
            OPEN,
            VGG,
            "The paper does not say what scaling was fitted on: here β = 1 is trained once more "
            "with 5,000 images held out (10,000 of Tiny-ImageNet).",
            CLIPPED,
        ),
        (USEFUL, ON_TINY, BY_HELD_OUT, "At this scale all methods leave the same images."),
    ),
    notes=(
        "Scaling is fitted by NLL on images held out from training, as many as the setup says; "
        "vector scaling has a ridge of 0.01, since there are few images per class.",
    ),
)


def under_confident(runs: Runs, task: Task) -> list[Finding]:
    """Find whether the network of the largest β is less confident than accurate on CIFAR-100."""
    if task.data not in LARGE_DATA:
        return []
    names = ("mean confidence", "accuracy")
    found = (score.of(runs, task, "β = 50") for score in (CONFIDENCE, ACCURACY))
    values = dict(zip(names, found, strict=True))
    return [compare(f"on {task.name}, the share in % with β = 50", values, names, -1)]


TABLE_4 = Row(
    id="gd-tab4",
    title="Accuracy and calibration with large β",
    place="Table 4",
    claim="On CIFAR-100, as β grows to 50, confidence falls and with it ECE, until the network is "
    "under-confident; accuracy keeps rising.",
    plan=Plan(
        desk=each(
            [desk.USEFUL_100, desk.USEFUL_100_AUGMENTED, desk.USEFUL_10_PLAIN, desk.USEFUL_10],
            UP_TO_50,
        ),
        paper=each(recipes.CIFAR100[:2], UP_TO_50),
        smoke=each([shrunk(desk.USEFUL_100)], UP_TO_50),
    ),
    findings=(
        Monotone(CONFIDENCE, 1, data=LARGE_DATA),
        Compare(ECE, "β = 20", -1, data=LARGE_DATA),
        Compare(ECE, "β = 0.1", 1, data=LARGE_DATA),
        under_confident,
        Compare(ACCURACY, "β = 50", 1, data=LARGE_DATA),
    ),
    tables=[
        ScoreTable(score, paper="gd-tab4", printed_as=score.title)
        for score in (ACCURACY, ECE, MCE, CONFIDENCE, TRAINED)
    ],
    charts=(ByBeta(ACCURACY), ByBeta(ECE)),
    deviations=deviations(
        (OPEN,),
        (
            USEFUL,
            COMPANION,
            BY_HELD_OUT,
            "CIFAR-10 stands beside the paper's CIFAR-100, to look at.",
        ),
    ),
)


def tiny_row(
    name: str, place: str, at_desk: Task, on_paper: Task, said: Sequence[str] = (CONNECTED,)
) -> Row:
    """Return a table of Tiny-ImageNet by β."""
    return Row(
        id=name,
        title="Tiny-ImageNet with {network} by β",
        place=place,
        claim="On Tiny-ImageNet a large β gives the better calibration and top-5 accuracy, a "
        "small one the higher training accuracy; top-1 accuracy differs by less than two points "
        "between β = 20 and β = 1.",
        plan=Plan(desk=each([at_desk], UP_TO_20), paper=each([on_paper], UP_TO_20)),
        network=on_paper.network,
        findings=(
            Monotone(ECE, 1),
            Compare(ECE, "β = 20", -1),
            Compare(TOP_5, "β = 20", 1, other="β = 0.01"),
            Compare(TRAINED, "β = 20", -1),
            *(Compare(ACCURACY, "β = 20", sign, margin=TWO_POINTS) for sign in (1, -1)),
        ),
        tables=[
            ScoreTable(score, paper=name, printed_as=score.title)
            for score in (ACCURACY, TOP_5, TRAINED, ECE, MCE)
        ],
        charts=(ByBeta(ECE), ByBeta(TRAINED)),
        deviations=deviations(
            (
                OPEN,
                "Augmentation is not printed for Tiny-ImageNet: crops with 4 pixels of padding "
                "and flips.",
                CLIPPED,
            ),
            said,
        ),
    )


TABLE_5 = tiny_row("gd-tab5", "Table 5", desk.TINY, recipes.TINY_34)
TABLE_6 = tiny_row(
    "gd-tab6",
    "Table 6",
    desk.TINY_WIDER,
    recipes.TINY_50,
    (CONNECTED, "A network of twice the width stands for ResNet50."),
)

ROWS = (*ACCURACY_ROWS, TABLE_3, TABLE_4, TABLE_5, TABLE_6)
