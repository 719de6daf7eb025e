"""What stands for the papers' networks on two cores: small ones that fit stated parts of the data.

Over-confidence needs networks that fit their training images. Residual networks do so on all
images that are there, in one to seven minutes of one core; fully connected 3072-256-128 ones in
less, all methods of a seed at once. MNIST is trained as in the paper, and at smoke scale on digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from softmargin.papers import methods as m
from softmargin.papers.grid import TITLES, Method, MnistTask, Task

# of two cores, per image and epoch of one fully connected network
SECONDS, SECONDS_CLIPPED, SECONDS_SMALL = 0.27e-4, 0.35e-4, 0.15e-4
WIDER_TAKES = 1.5  # times as long
FEW_SEEDS = 3  # of residual networks, where five would take too long

TEN_THOUSAND = {"train": 10_000, "test": 5000}  # of CIFAR-10


def connected(
    data: str,
    training: Mapping[str, Any],
    part: Mapping[str, int],
    methods: tuple[Method, ...],
    *,
    note: str = "",
    wider: bool = False,
    per_image: float = SECONDS,
    **fields: Any,
) -> Task:
    """Return a task of fully connected networks, all trained together; fields are the task's."""
    title = f"{TITLES[data]}{note and f', {note}'}, fully connected"
    training = {"model_options": {"widths": [512, 256] if wider else [256, 128]}, **training}
    seconds = per_image * (WIDER_TAKES if wider else 1) * part["train"] * training["epochs"]
    return Task(title, data, "fcnn", training, part, methods, seconds=seconds, **fields)


# a stem of stride 2 and 32, 64 and 128 channels: 12 seconds of one core for an epoch of CIFAR-10
_USEFUL = {
    "model_options": {"width": 32, "stem_stride": 2},
    "batch": 128,
    "lr_schedule": "one_cycle",
    "weight_decay": 5e-4,
    "precision": "bf16",
}
SECONDS_USEFUL = 5.7e-4  # of one core, per training image and epoch, two networks at a time


def useful(
    note: str,
    training: Mapping[str, Any],
    part: Mapping[str, int],
    data: str = "cifar10",
    images: int = 20_000,
    **fields: Any,
) -> Task:
    """Return residual networks of useful accuracy on all images of a data set, or on many."""
    fields = {"measures": ("scaling",), "most_seeds": 5, "stands_for": "ResNet18", **fields}
    return Task(
        f"{TITLES[data]}, residual network, {note}",
        data,
        "small_resnet",
        {**_USEFUL, **training},
        part,
        seconds=SECONDS_USEFUL * images * training["epochs"],
        **fields,
    )


# --- gradient decay

AUGMENTED = {"batch": 64, "lr": 0.2, "weight_decay": 2e-4, "epochs": 30, "augment": True}
PLAIN = {"lr": 0.4, "epochs": 15}
USEFUL_10 = useful("augmented", AUGMENTED, {"held_out": 1000})  # few: every image counts
USEFUL_10_PLAIN = useful("no augmentation", PLAIN, {"held_out": 2000})
# fewer images: half the batch and the rate, and some more epochs
FEWER = {"batch": 64, "lr": 0.2, "epochs": 20}
USEFUL_100 = useful("no augmentation", FEWER, {"held_out": 1000}, "cifar100", images=8000)
USEFUL_100_AUGMENTED = useful(
    "augmented",
    {**AUGMENTED, "weight_decay": 1e-3, "epochs": 40},
    {"held_out": 1000},
    "cifar100",
    images=7000,
)
_STEPS = {"batch": 100, "lr_schedule": "step", "weight_decay": 1e-4, "clip": 3.0}
_FITTED = {**_STEPS, "lr": 0.02, "epochs": 40}
_DECAYS = m.betas(50, 20, 10, 5, 2, 1, 0.1, 0.01)
_RIVALS = (m.warm_up(0.1, 1), m.A_SOFTMAX, m.CENTER_LOSS)


def fitted(
    data: str, part: Mapping[str, int], methods: tuple[Method, ...], stands_for: str, **fields: Any
) -> Task:
    """Return a task of the gradient-decay paper: clipped steps until the images are fitted."""
    fields = {"per_image": SECONDS_CLIPPED, "measures": ("scaling",), **fields}
    return connected(data, _FITTED, part, methods, stands_for=stands_for, **fields)


SVHN = fitted("svhn", {"train": 5000}, (*_DECAYS[3:], *_RIVALS), "ResNet18", measures=())
PART_10 = {**TEN_THOUSAND, "held_out": 2000}
CIFAR10 = fitted("cifar10", PART_10, (*_DECAYS[3:], _RIVALS[0]), "ResNet18")
CIFAR100 = fitted(
    "cifar100", {"train": 7000, "held_out": 1000}, (*_DECAYS[3:], m.warm_up(1, 5)), "ResNet18"
)
_TINY = {"train": 2200, "held_out": 300, "size": 32}
TINY = fitted("tiny_imagenet", _TINY, (*_DECAYS[1:], *_RIVALS), "ResNet34")
TINY_WIDER = fitted("tiny_imagenet", _TINY, _DECAYS[1:], "ResNet50", note="wider", wider=True)

# --- large margin in softmax

LAMBDAS = (0.1, 0.3, 0.5, 0.9)
SMOOTHED = tuple(m.smoothed(lam) for lam in (0.01, 0.05, 0.1, 0.3))
ALL_DIVERGENCES = tuple(m.regularized(lam, d) for d in m.DIVERGENCES for lam in LAMBDAS)
_LOG = {
    "batch": 64,
    "lr": 0.03,
    "lr_schedule": "log_linear:1e-3",
    "weight_decay": 1e-4,
    "epochs": 30,
}

_SMALL_100 = {"train": 8000, "size": 16}  # small, so that time allows for twelve seeds
ABLATION = connected(
    "cifar100",
    _LOG,
    _SMALL_100,
    (m.SOFTMAX, *ALL_DIVERGENCES),
    note="ablation",
    per_image=SECONDS_SMALL,
    measures=("bias",),
    stands_for="13-layer network",
)
RELATED = connected(
    "cifar100",
    _LOG,
    _SMALL_100,
    (m.SOFTMAX, m.SUPER_SYMMETRY, *SMOOTHED, m.regularized(0.3)),
    note="related methods",
    per_image=SECONDS_SMALL,
    measures=("bias",),
    stands_for="13-layer network",
)
ABLATION_RESIDUAL = useful(
    "ablation",
    {**AUGMENTED, "weight_decay": 1e-3, "epochs": 20},
    {},
    "cifar100",
    images=8000,
    most_seeds=FEW_SEEDS,
    measures=("bias",),
    stands_for="13-layer network",
)
RESIDUAL_LAMBDAS = (0.1, 0.3, 0.9)  # of all three divergences
RESIDUAL_DIVERGENCES = tuple(
    m.regularized(lam, d) for d in m.DIVERGENCES for lam in RESIDUAL_LAMBDAS
)
FRACTIONS = (0.9, 0.7, 0.5)
WRONG = (0.1, 0.3, 0.5)  # shares of wrong labels
MARGINS = (m.SOFTMAX, *(m.regularized(lam) for lam in (0.3, 1.0)))


def degenerate(
    fractions: Sequence[float], wrong: Sequence[float], methods: Sequence[Method] = MARGINS
) -> tuple[Method, ...]:
    """Return methods that are trained on fewer images, or with wrong labels."""
    harder = ((m.fewer, fractions), (m.mislabelled, wrong))
    return tuple(
        make(each, share) for make, shares in harder for share in shares for each in methods
    )


DEGENERATE = connected(
    "cifar100",
    _LOG,
    _SMALL_100,
    degenerate(FRACTIONS, WRONG),
    note="degenerate",
    per_image=SECONDS_SMALL,
    stands_for="13-layer network",
)
DEGENERATE_RESIDUAL = degenerate(FRACTIONS[1:], WRONG[:2])  # each is trained by itself
# with the others' learning rate it fits half of its data
_LGM = replace(m.LGM, training={**m.LGM.training, "lr": 0.01})
LARGE_MARGIN = (m.SOFTMAX, m.HINGE, m.MODIFIED, _LGM, m.L_SOFTMAX, m.regularized(0.3), m.BOTH)
MARGINS_10, MARGINS_SVHN = (
    connected(data, _LOG, part, LARGE_MARGIN, note="large margin", stands_for="WideResNet-28-10")
    for data, part in (("cifar10", TEN_THOUSAND), ("svhn", {"train": 5000}))
)

# --- ArcGrad

ARC_RATE = 0.01  # of Adam
ARC_EPOCHS = {2: 10, 4: 20, 8: 40, 18: 90}  # here, a fifth of the paper's, and in the paper


def arc_residual(
    note: str,
    training: Mapping[str, Any],
    part: Mapping[str, int] = TEN_THOUSAND,
    data: str = "cifar10",
    **fields: Any,
) -> Task:
    """Return the ArcGrad paper's methods on residual networks, by default half of CIFAR-10."""
    training = {"optimizer": "adam", "lr": ARC_RATE, **training}
    fields = {"images": TEN_THOUSAND["train"], **fields}
    return useful(note, training, part, data, **fields)


ARC_BY_EPOCHS = tuple(
    arc_residual(
        f"{epochs} epochs",
        {"epochs": epochs},
        measures=("angles", "angles by epoch"),
        row=f"{paper} epochs",
    )
    for epochs, paper in ARC_EPOCHS.items()
)
ARC_10 = replace(ARC_BY_EPOCHS[-1], row="")
ARC_10_PLUS = arc_residual(
    "15 epochs, augmented",
    {"epochs": 15, "augment": True},
    measures=(),
    row="CIFAR-10, ResNet18, augmented",
)
ARC_100 = arc_residual(
    "15 epochs, augmented",
    {"epochs": 15, "augment": True},
    {},
    "cifar100",
    images=8000,
    most_seeds=FEW_SEEDS,
    measures=(),
    stands_for="ResNet34",
)
SHARES = (1.0, 0.5, 0.25, 0.1)
ARC_SHARES = arc_residual("10 epochs", {"epochs": 10}, most_seeds=FEW_SEEDS, measures=())
ARC_SHARES_METHODS = tuple(m.fewer(each, share) for share in SHARES for each in m.COSINES)

# --- MNIST, at all scales

MNIST_RECIPE = {
    "widths": [50, 20],
    "last_activation": True,
    "epochs": 100,
    "batch": 100,
    "lr": 1e-3,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "warm_up": "30%",
    "features": False,
}
_IN_TWO_DIMENSIONS = {"widths": [50, 20, 2], "last_activation": False, "features": True}
# a larger rate, so that a few epochs on small data are enough to learn something
_ON_DIGITS = {"epochs": 8, "lr": 0.02}
_SECONDS_PER_EPOCH = 0.15
WARM_UPS = (m.warm_up(0.01, 0.1), m.warm_up(0.001, 0.01))
MNIST_METHODS = (*m.betas(5, 2, 1, 0.5, 0.2, 0.1, 0.01, 0.001), *WARM_UPS)


def _mnist(
    what: str,
    methods: tuple[Method, ...],
    recipe: Mapping[str, Any] = MNIST_RECIPE,
    data: str = "mnist",
) -> MnistTask:
    seconds = _SECONDS_PER_EPOCH * recipe["epochs"] if data == "mnist" else 0.1
    title = f"{TITLES[data]}, {what}"
    return MnistTask(title, data, "fcnn", recipe, {}, methods, seconds=seconds)


CONFIDENCES = _mnist("confidences", MNIST_METHODS)
DIGITS = _mnist(
    "confidences",
    (*m.betas(5, 1, 0.1, 0.01), WARM_UPS[0]),
    {**MNIST_RECIPE, **_ON_DIGITS},
    "digits",
)
FEATURES = _mnist(
    "two features", m.betas(5, 1, 0.2, 0.1, 0.01), {**MNIST_RECIPE, **_IN_TWO_DIMENSIONS}
)
DIGITS_FEATURES = _mnist(
    "two features",
    m.betas(5, 1, 0.01),
    {**MNIST_RECIPE, **_IN_TWO_DIMENSIONS, **_ON_DIGITS},
    "digits",
)
