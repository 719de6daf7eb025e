"""The papers' recipes as printed, one line for each data set and network.

What the papers leave open is chosen once and said in the deviations of the experiments: VGG16 has
batch normalisation, and the deep networks of the large-margin paper's last table, whose recipe is
in a supplement, follow their original authors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from softmargin.papers.grid import TITLES, Task
from softmargin.papers.plan import gpu_seconds


def task(data: str, model: str, recipe: Mapping[str, Any], note: str = "", **fields: Any) -> Task:
    """Return a task at paper scale, named after its data and network; fields are the task's."""
    return Task(
        f"{TITLES[data]}, {TITLES[model]}{note and f', {note}'}",
        data,
        model,
        recipe,
        seconds=gpu_seconds(data, model, recipe["epochs"]),
        stands_for=TITLES[model],
        **fields,
    )


# --- gradient decay

_STEPS = {"batch": 100, "lr": 0.01, "lr_schedule": "step", "weight_decay": 1e-4, "clip": 3.0}
PLAIN = {**_STEPS, "epochs": 200}
AUGMENTED = {**PLAIN, "augment": True}
SHORTER = {**_STEPS, "epochs": 100}
TINY = {
    "batch": 256,
    "lr": 0.05,
    "lr_schedule": "step:40%,80%",
    "weight_decay": 1e-4,
    "clip": 3.0,
    "epochs": 200,
    "augment": True,
}
NETWORKS = ("resnet18", "resnet34", "vgg16_bn", "mobilenet_v1")

SVHN = tuple(task("svhn", model, SHORTER) for model in NETWORKS)
CIFAR10 = tuple(task("cifar10", model, AUGMENTED) for model in NETWORKS)
CIFAR100 = tuple(task("cifar100", model, AUGMENTED) for model in NETWORKS)
CIFAR10_PLAIN, CIFAR100_PLAIN = (
    tuple(task(data, model, PLAIN, note="no augmentation") for model in NETWORKS)
    for data in ("cifar10", "cifar100")
)
TINY_34, TINY_50 = (task("tiny_imagenet", model, TINY) for model in ("resnet34", "resnet50"))

HELD_OUT = {"cifar10": 5000, "cifar100": 5000, "tiny_imagenet": 10_000}


def held_out(whole: Task) -> Task:
    """Return a task trained on fewer images, so that post-hoc scaling has some of its own."""
    count = HELD_OUT[whole.data]
    return replace(
        whole,
        name=f"{whole.name}, {count:,} held out",
        part={"held_out": count},
        measures=("scaling",),
        serves=whole.name,
    )


# --- large margin in softmax

_ABLATION = {
    "batch": 128,
    "lr": 0.1,
    "lr_schedule": "log_linear",
    "weight_decay": 1e-4,
    "epochs": 50,
    "augment": True,
}
ABLATION = task("cifar100", "convnet13", _ABLATION, measures=("bias",))
_WIDE = {"batch": 128, "lr": 0.1, "lr_schedule": "step:30%,60%,80%", "weight_decay": 5e-4}
WIDE_10 = task("cifar10", "wide_resnet", {**_WIDE, "epochs": 200, "augment": True})
WIDE_SVHN = task(
    "svhn",
    "wide_resnet",
    {**_WIDE, "lr": 0.01, "lr_schedule": "step:50%,75%", "epochs": 160}
    | {"model_options": {"dropout": 0.4}},
)
_LARGE = {**_ABLATION, "batch": 256, "epochs": 90}


def large(data: str, model: str) -> Task:
    """Return a network on full pictures, trained once as in the paper."""
    own: dict[str, Any] = {"model_options": {"images": "imagenet"}}
    if model == "vgg16_mod":
        own = {}
    elif model == "vgg16_bn":  # its wide layers do not bear a larger rate
        own |= {"lr": 0.01, "lr_schedule": "log_linear:1e-5"}
    return task(data, model, {**_LARGE, **own}, most_seeds=1)


IMAGENET = tuple(
    large("imagenet", model) for model in ("vgg16_bn", "vgg16_mod", "mobilenet_v1", "resnext50")
)
PLACES = large("places365", "vgg16_mod")

# --- ArcGrad

_CYCLE = {"optimizer": "adam", "weight_decay": 5e-4, "lr_schedule": "one_cycle"}
CYCLE_10 = {**_CYCLE, "batch": 256, "lr": 0.1, "epochs": 120}
CYCLE_10_PLUS = {**CYCLE_10, "augment": True}
CYCLE_100_PLUS = {**_CYCLE, "batch": 128, "lr": 0.01, "epochs": 160, "augment": True}
ANGLES = ("angles", "angles by epoch")
ARC_10 = task("cifar10", "resnet18", CYCLE_10, note="one cycle", measures=ANGLES)
ARC_10_PLUS = task(
    "cifar10",
    "resnet18",
    CYCLE_10_PLUS,
    note="one cycle, augmented",
    row="CIFAR-10, ResNet18, augmented",
)
ARC_100_PLUS = task("cifar100", "resnet34", CYCLE_100_PLUS, note="one cycle, augmented")


def arc_epochs(epochs: int) -> Task:
    """Return CIFAR-10 with augmentation and another number of epochs."""
    return task(
        "cifar10",
        "resnet18",
        {**CYCLE_10_PLUS, "epochs": epochs},
        note=f"one cycle of {epochs} epochs, augmented",
        row=f"{epochs} epochs",
    )
