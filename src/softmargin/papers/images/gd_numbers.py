"""The numbers that both versions of the gradient-decay paper print, by row and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softmargin.papers.images.runs import Numbers

NETWORKS = ("ResNet18", "ResNet34", "VGG16", "MobileNetV1")
FIVE = ("β = 5", "β = 2", "β = 1", "β = 0.1", "β = 0.01")


def _table(columns: Sequence[str], rows: Mapping[str, Sequence[float]]) -> Numbers:
    return {row: dict(zip(columns, values, strict=True)) for row, values in rows.items()}


def _of(data: str, columns: Sequence[str], rows: Sequence[Sequence[float]]) -> Numbers:
    """Return rows of one data set, in the order of the networks; ResNet35 is a slip for 34."""
    named = [f"{data}, {network}" for network in NETWORKS]
    return _table(columns, dict(zip(named, rows, strict=True)))


_SCORED = (*FIVE, "warm-up, β = 0.1→1", "A-Softmax", "center loss")
TABLE_2: Numbers = {
    **_of(
        "SVHN",
        _SCORED,
        (
            (94.5, 94.8, 94.9, 95.8, 95.6, 95.9, 96.0, 95.7),
            (95.0, 95.2, 95.5, 96.1, 96.0, 96.2, 96.1, 95.8),
            (95.1, 95.3, 95.4, 96.1, 95.8, 96.0, 95.9, 95.7),
            (94.1, 94.5, 95.0, 95.2, 95.5, 95.9, 96.2, 95.6),
        ),
    ),
    **_of(
        "CIFAR-10",
        _SCORED,
        (
            (94.2, 94.3, 94.3, 94.5, 94.3, 94.9, 94.6, 94.5),
            (94.4, 94.5, 94.7, 94.9, 94.7, 95.2, 94.9, 94.7),
            (92.9, 93.2, 93.0, 93.4, 93.2, 93.7, 93.8, 93.6),
            (93.0, 93.1, 93.0, 93.7, 93.5, 93.7, 93.5, 93.7),
        ),
    ),
    **_of(
        "CIFAR-100",
        _SCORED,
        (
            (74.1, 73.6, 73.5, 73.2, 72.8, 74.5, 73.3, 73.6),
            (74.5, 74.0, 74.0, 73.8, 73.4, 74.6, 73.6, 73.9),
            (72.0, 72.3, 72.0, 71.8, 71.1, 72.5, 71.9, 72.2),
            (73.6, 73.9, 73.5, 73.0, 72.5, 73.7, 73.3, 73.8),
        ),
    ),
    **_table(
        _SCORED,
        {"Tiny-ImageNet, ResNet34": (53.8, 53.7, 53.4, 53.7, 53.6, 54.0, 54.2, 52.9)},
    ),
}

_FIRST = (*FIVE, "warm-up, β = 0.1→1")
_FIRST_100 = (*FIVE, "warm-up, β = 1→5")
V1_TABLE_2 = _of(
    "CIFAR-10",
    _FIRST,
    (
        (82.1, 83.8, 83.9, 84.4, 84.4, 84.8),
        (83.4, 84.3, 84.3, 84.7, 85.2, 85.6),
        (83.8, 85.3, 85.6, 85.7, 85.9, 86.1),
        (78.4, 79.6, 81.7, 82.9, 83.0, 83.3),
    ),
)
V1_TABLE_3 = _of(
    "SVHN",
    _FIRST,
    (
        (94.5, 94.8, 94.9, 95.8, 95.6, 95.9),
        (95.0, 95.2, 95.5, 96.1, 96.0, 96.2),
        (95.1, 95.3, 95.4, 96.1, 95.8, 96.0),
        (94.1, 94.5, 95.0, 95.2, 95.5, 95.9),
    ),
)
V1_TABLE_4 = _of(
    "CIFAR-100",
    _FIRST_100,
    (
        (52.8, 53.8, 52.9, 52.8, 52.7, 54.3),
        (54.2, 54.1, 53.4, 53.0, 53.0, 54.6),
        (53.0, 52.8, 52.8, 52.5, 52.4, 53.0),
        (45.0, 44.1, 43.8, 43.5, 43.5, 45.4),
    ),
)
V1_TABLE_5 = _of(
    "CIFAR-100",
    _FIRST_100,
    (
        (79.6, 80.4, 78.8, 77.9, 78.1, 80.7),
        (80.3, 79.9, 80.9, 78.2, 77.2, 80.4),
        (77.0, 77.9, 77.4, 77.2, 76.4, 77.8),
        (75.2, 73.4, 71.9, 71.8, 71.9, 75.4),
    ),
)

_CALIBRATED = ("β = 20", "β = 10", "β = 1", "β = 0.1", "vector scaling", "temperature scaling")
TABLE_3_ECE = _table(
    _CALIBRATED,
    {
        "CIFAR-100, ResNet18": (0.021, 0.059, 0.130, 0.181, 0.041, 0.029),
        "CIFAR-100, ResNet34": (0.030, 0.065, 0.125, 0.170, 0.037, 0.031),
        "CIFAR-100, VGG16": (0.131, 0.177, 0.212, 0.233, 0.028, 0.022),
        "CIFAR-10, ResNet18": (0.023, 0.026, 0.038, 0.045, 0.012, 0.014),
        "Tiny-ImageNet, ResNet34": (0.015, 0.034, 0.087, 0.224, 0.018, 0.021),
        "Tiny-ImageNet, ResNet50": (0.045, 0.014, 0.114, 0.203, 0.021, 0.025),
    },
)
TABLE_3_MCE = _table(
    _CALIBRATED,
    {
        "CIFAR-100, ResNet18": (0.071, 0.135, 0.298, 0.464, 0.152, 0.076),
        "CIFAR-100, ResNet34": (0.091, 0.157, 0.273, 0.388, 0.150, 0.049),
        "CIFAR-100, VGG16": (0.301, 0.386, 0.508, 0.579, 0.540, 0.044),
        "CIFAR-10, ResNet18": (0.728, 0.291, 0.286, 0.379, 0.052, 0.097),
        "Tiny-ImageNet, ResNet34": (0.036, 0.065, 0.176, 0.406, 0.038, 0.068),
        "Tiny-ImageNet, ResNet50": (0.084, 0.044, 0.151, 0.388, 0.042, 0.073),
    },
)

_LARGE = ("β = 50", "β = 20", "β = 10", "β = 5", "β = 1", "β = 0.1")
TABLE_4: Mapping[str, Numbers] = {
    "Top-1 accuracy": _table(
        _LARGE,
        {
            "CIFAR-100, ResNet18": (75.0, 74.5, 74.2, 74.1, 73.5, 73.2),
            "CIFAR-100, ResNet34": (75.6, 75.2, 74.8, 74.5, 74.0, 73.8),
        },
    ),
    "ECE": _table(
        _LARGE,
        {
            "CIFAR-100, ResNet18": (0.027, 0.021, 0.059, 0.082, 0.130, 0.181),
            "CIFAR-100, ResNet34": (0.024, 0.030, 0.065, 0.085, 0.125, 0.170),
        },
    ),
    "MCE": _table(
        _LARGE,
        {
            "CIFAR-100, ResNet18": (0.141, 0.071, 0.135, 0.182, 0.298, 0.464),
            "CIFAR-100, ResNet34": (0.056, 0.091, 0.157, 0.172, 0.273, 0.388),
        },
    ),
}

_WIDE = ("β = 20", "β = 10", "β = 5", "β = 1", "β = 0.1", "β = 0.01")


def _tiny(network: str, rows: Mapping[str, Sequence[float]]) -> Mapping[str, Numbers]:
    row = f"Tiny-ImageNet, {network}"
    return {score: _table(_WIDE, {row: values}) for score, values in rows.items()}


TABLE_5 = _tiny(
    "ResNet34",
    {
        "Top-1 accuracy": (52.8, 53.2, 53.8, 53.4, 53.7, 53.6),
        "Top-5 accuracy": (75.8, 75.5, 75.1, 75.0, 74.4, 73.2),
        "Training accuracy": (88.6, 88.5, 89.7, 90.3, 90.9, 90.5),
        "ECE": (0.015, 0.034, 0.076, 0.087, 0.224, 0.274),
        "MCE": (0.036, 0.065, 0.151, 0.176, 0.406, 0.518),
    },
)
TABLE_6 = _tiny(
    "ResNet50",
    {
        "Top-1 accuracy": (55.9, 56.0, 56.4, 56.3, 56.4, 56.2),
        "Top-5 accuracy": (77.7, 78.0, 77.3, 76.6, 76.0, 74.9),
        "Training accuracy": (86.4, 88.8, 90.3, 91.9, 92.3, 91.8),
        "ECE": (0.045, 0.014, 0.046, 0.114, 0.203, 0.249),
        "MCE": (0.084, 0.044, 0.082, 0.151, 0.388, 0.476),
    },
)
