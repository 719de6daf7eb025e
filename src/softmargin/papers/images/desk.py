"""What stands for the papers' networks on two cores: small ones that fit stated parts of the data.

Over-confidence needs networks that fit their training images. Fully connected 3072-256-128 ones do
so in a minute, all methods of a seed at once, which leaves time for five seeds; a small residual
one on fewer images, three seeds, says whether convolutions change the picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softmargin.papers.images import methods as m
from softmargin.papers.images.tasks import Task

# of two cores, per image and epoch of one fully connected network
SECONDS, SECONDS_CLIPPED, SECONDS_ADAM = 0.27e-4, 0.35e-4, 0.33e-4
# of one core, per image and epoch of the small residual network, and for a look at the test images
SECONDS_RESIDUAL, SECONDS_LOOK = 9.5e-4, 1.4
RESIDUAL_SEEDS = 3

TEN_THOUSAND = {"train": 10_000, "test": 5000}  # of CIFAR-10
WIDTHS = {"model_options": {"widths": [256, 128]}}
WIDER = {"model_options": {"widths": [512, 256]}}


def connected(
    name: str,
    data: str,
    training: Mapping[str, Any],
    part: Mapping[str, int],
    methods: tuple[m.Method, ...],
    per_image: float = SECONDS,
    **more: Any,
) -> Task:
    """Return a task of fully connected networks, all trained together."""
    training = {**WIDTHS, **training}
    wider = training["model_options"] == WIDER["model_options"]
    if "clip" in training:
        per_image = SECONDS_CLIPPED
    seconds = per_image * (1.5 if wider else 1.0) * part["train"] * training["epochs"]
    title = f"{name}, fully connected"
    return Task(title, data, "fcnn", training, part, methods, seconds=seconds, **more)


def residual(
    name: str, training: Mapping[str, Any], images: int, measures: tuple[str, ...], beside: str
) -> Task:
    """Return a task of small residual networks on a part of CIFAR-10, trained one by one."""
    part = {"train": images, "test": 2000, "held_out": 1000}
    seconds = (SECONDS_RESIDUAL * images + SECONDS_LOOK) * training["epochs"]
    return Task(
        *(name, "cifar10", "small_resnet", training, part, (), measures, RESIDUAL_SEEDS, seconds),
        beside,
    )


# --- gradient decay

_STEPS = {"batch": 100, "lr_schedule": "step", "weight_decay": 1e-4, "clip": 3.0}
FITTED = {**_STEPS, "lr": 0.02, "epochs": 40}
DECAYS = m.betas(50, 20, 10, 5, 2, 1, 0.1, 0.01)
RIVALS = (m.warm_up(0.1, 1), m.A_SOFTMAX, m.CENTER_LOSS)
SCALING = ("scaling",)

SVHN = connected(
    *("SVHN", "svhn", FITTED, {"train": 5000}, (*DECAYS[3:], *RIVALS)),
    beside="SVHN, ResNet18",
)
CIFAR10 = connected(
    *("CIFAR-10", "cifar10", FITTED, {**TEN_THOUSAND, "held_out": 2000}, (*DECAYS, *RIVALS)),
    measures=SCALING,
    beside="CIFAR-10, ResNet18",
)
CIFAR100 = connected(
    *("CIFAR-100", "cifar100", FITTED, {"train": 7000, "held_out": 1000}),
    (*DECAYS, *RIVALS, m.warm_up(1, 5)),
    measures=SCALING,
    beside="CIFAR-100, ResNet18",
)
_TINY = {"train": 2200, "held_out": 300, "size": 32}
TINY = connected(
    *("Tiny-ImageNet", "tiny_imagenet", FITTED, _TINY, (*DECAYS[1:], *RIVALS)),
    measures=SCALING,
    beside="Tiny-ImageNet, ResNet34",
)
TINY_WIDER = connected(
    *("Tiny-ImageNet, wider", "tiny_imagenet", {**FITTED, **WIDER}, _TINY, DECAYS[1:]),
    measures=SCALING,
    beside="Tiny-ImageNet, ResNet50",
)
RESIDUAL = residual(
    "CIFAR-10, small residual network",
    {**_STEPS, "lr": 0.05, "epochs": 50},
    2000,
    SCALING,
    "CIFAR-10, ResNet18",
)
RESIDUAL_DECAYS = m.betas(20, 1, 0.1)

# --- large margin in softmax

LAMBDAS = (0.1, 0.3, 0.5, 0.9)
SMOOTHED = tuple(m.smoothed(lam) for lam in (0.01, 0.05, 0.1, 0.3))
ALL_DIVERGENCES = tuple(m.regularized(lam, d) for d in m.DIVERGENCES for lam in LAMBDAS)
_LOG = {
    **{"batch": 64, "lr": 0.03, "lr_schedule": "log_linear:1e-3", "weight_decay": 1e-4},
    "epochs": 30,
}

ABLATION = connected(
    *("CIFAR-100, ablation", "cifar100", _LOG, {"train": 8000}),
    (m.SOFTMAX, m.SUPER_SYMMETRY, *SMOOTHED, *ALL_DIVERGENCES),
    measures=("bias",),
    beside="CIFAR-100, 13-layer network",
)
FRACTIONS = (0.9, 0.7, 0.5)
POLLUTED = (0.1, 0.3, 0.5)
MARGINS = (m.SOFTMAX, *(m.regularized(lam) for lam in (0.3, 0.5, 1.0)))


def fewer(method: m.Method, share: float) -> m.Method:
    """Return a method that is trained on a share of the images."""
    return m.under(method, f"{share:g} of the images", fraction=share)


def polluted(method: m.Method, share: float) -> m.Method:
    """Return a method that is trained with a share of the labels wrong."""
    return m.under(method, f"{share:g} polluted", pollute=share)


DEGENERATE = connected(
    *("CIFAR-100, degenerate", "cifar100", _LOG, {"train": 8000}),
    (
        *(fewer(each, share) for share in FRACTIONS for each in MARGINS),
        *(polluted(each, share) for share in POLLUTED for each in MARGINS),
    ),
    per_image=2 * SECONDS,  # shares of different size are computed apart
    beside="CIFAR-100, 13-layer network",
)
# with the others' learning rate it fits half of its data
_LGM = m.Method(m.LGM.name, {**m.LGM.training, "lr": 0.01})
LARGE_MARGIN = (m.SOFTMAX, m.HINGE, m.MODIFIED, _LGM, m.L_SOFTMAX, m.regularized(0.3), m.BOTH)
MARGINS_10 = connected(
    *("CIFAR-10, large margin", "cifar10", _LOG, TEN_THOUSAND, LARGE_MARGIN),
    beside="CIFAR-10, WideResNet-28-10",
)
MARGINS_SVHN = connected(
    *("SVHN, large margin", "svhn", _LOG, {"train": 5000}, LARGE_MARGIN),
    beside="SVHN, WideResNet-28-10",
)

# --- ArcGrad

_CYCLE = {"optimizer": "adam", "weight_decay": 5e-4, "lr_schedule": "one_cycle"}
CYCLE = {**_CYCLE, "batch": 128, "lr": 0.002}


def arc(name: str, data: str, part: Mapping[str, int], epochs: int, **more: Any) -> Task:
    """Return all methods of the ArcGrad paper for a number of epochs."""
    more = {"methods": m.ARC_GRAD_METHODS, "per_image": SECONDS_ADAM, **more}
    return connected(f"{name}, {epochs} epochs", data, {**CYCLE, "epochs": epochs}, part, **more)


ARC_EPOCHS = (3, 6, 12, 27)  # the paper's 10, 20, 40 and 90 over 3.3
ARC_BY_EPOCHS = tuple(
    arc("CIFAR-10", "cifar10", TEN_THOUSAND, epochs, measures=("angles",), beside=f"{paper} epochs")
    for epochs, paper in zip(ARC_EPOCHS, (10, 20, 40, 90), strict=True)
)
ARC_10 = ARC_BY_EPOCHS[-1]
ARC_100 = arc("CIFAR-100", "cifar100", {"train": 8000}, 27, beside="CIFAR-100, ResNet34")
ARC_10_PLUS = residual(
    "CIFAR-10, small residual network, augmented",
    {**_CYCLE, "batch": 128, "lr": 0.01, "epochs": 15, "augment": True},
    3000,
    ("angles", "angles by epoch"),
    "CIFAR-10, ResNet18, augmented",
)
SHARES = (1.0, 0.5, 0.25, 0.1)
COSINES = (m.SOFT, m.ARC_FACE, m.ADA_COS, m.ARC_GRAD)
ARC_SHARES = arc(
    *("CIFAR-10, shares", "cifar10", TEN_THOUSAND, 12),
    methods=tuple(fewer(each, share) for share in SHARES for each in COSINES),
    per_image=2 * SECONDS_ADAM,
)
