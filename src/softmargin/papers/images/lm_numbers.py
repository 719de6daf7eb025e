"""The numbers that the large-margin paper prints: error rates in %, and their sd over 3 seeds."""

from __future__ import annotations

from collections.abc import Mapping

from softmargin.papers.images.runs import Numbers

Pair = tuple[float, float]
"""A mean and a standard deviation."""

LAMBDAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_TABLE_1: Mapping[str, tuple[Pair, ...]] = {
    "D(u‖q)": (
        *((27.99, 0.18), (27.62, 0.16), (27.30, 0.34), (27.35, 0.14), (26.98, 0.22)),
        *((27.11, 0.22), (26.77, 0.35), (26.99, 0.16), (26.89, 0.07)),
    ),
    "D(q‖u)": (
        *((28.45, 0.41), (28.52, 0.44), (27.79, 0.23), (27.77, 0.09), (27.40, 0.11)),
        *((27.33, 0.12), (27.15, 0.07), (27.14, 0.16), (26.98, 0.09)),
    ),
    "D̃(q)": (
        *((28.21, 0.32), (27.92, 0.12), (27.27, 0.15), (27.38, 0.10), (27.13, 0.17)),
        *((26.73, 0.15), (26.98, 0.09), (27.13, 0.08), (26.87, 0.08)),
    ),
}
TABLE_1: Mapping[str, Mapping[str, Pair]] = {
    row: {f"λ = {lam:g}": pair for lam, pair in zip(LAMBDAS, pairs, strict=True)}
    for row, pairs in _TABLE_1.items()
}

TABLE_2: Mapping[str, Pair] = {
    "softmax": (28.62, 0.24),
    "super-symmetry": (28.67, 0.46),
    "LSR, λ = 0.01": (28.80, 0.23),
    "LSR, λ = 0.05": (28.51, 0.22),
    "LSR, λ = 0.1": (28.48, 0.13),
    "LSR, λ = 0.3": (28.65, 0.25),
    "regularised, λ = 0.3": (27.27, 0.15),
}

FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5)
POLLUTED = (0.1, 0.2, 0.3, 0.4, 0.5)
_FEWER: Mapping[str, tuple[Pair, ...]] = {
    "softmax": ((29.66, 0.21), (30.94, 0.06), (32.71, 0.07), (34.11, 0.14), (36.87, 0.26)),
    "regularised, λ = 0.3": (
        *((28.62, 0.12), (29.95, 0.09), (31.35, 0.47), (33.49, 0.22), (36.06, 0.06)),
    ),
    "regularised, λ = 0.5": (
        *((28.09, 0.03), (29.56, 0.20), (30.83, 0.20), (33.13, 0.09), (35.58, 0.37)),
    ),
    "regularised, λ = 1": (
        *((27.88, 0.23), (29.21, 0.13), (30.83, 0.15), (33.11, 0.46), (35.49, 0.15)),
    ),
}
_POLLUTED: Mapping[str, tuple[Pair, ...]] = {
    "softmax": ((33.97, 0.21), (37.17, 0.34), (40.54, 0.35), (43.65, 0.81), (48.37, 0.19)),
    "regularised, λ = 0.3": (
        *((31.59, 0.17), (34.98, 0.07), (38.23, 0.26), (42.06, 0.11), (46.87, 0.32)),
    ),
    "regularised, λ = 0.5": (
        *((31.00, 0.19), (34.38, 0.19), (37.91, 0.17), (41.53, 0.31), (46.41, 0.09)),
    ),
    "regularised, λ = 1": (
        *((30.42, 0.20), (33.50, 0.07), (36.75, 0.23), (40.76, 0.25), (46.43, 0.19)),
    ),
}
TABLE_3: Mapping[str, Mapping[str, Pair]] = {
    method: {
        **{f"{s:g} of the images": p for s, p in zip(FRACTIONS, _FEWER[method], strict=True)},
        **{f"{s:g} polluted": p for s, p in zip(POLLUTED, _POLLUTED[method], strict=True)},
    }
    for method in _FEWER
}

_METHODS = ("softmax", "hinge (14)", "modified (15)", "LGM", "L-Softmax", "regularised, λ = 0.3")
TABLE_4: Numbers = {
    "CIFAR-10, WideResNet-28-10": dict(
        zip(_METHODS, (4.73, 5.26, 4.68, 4.75, 4.49, 4.60), strict=True)
    ),
    "SVHN, WideResNet-28-10": dict(
        zip(_METHODS, (2.93, 3.15, 2.89, 2.65, 2.80, 2.67), strict=True)
    ),
    "ImageNet, VGG16": {
        **{"softmax": 27.94, "hinge (14)": 46.58, "modified (15)": 27.65},
        **{"L-Softmax": 27.92, "regularised, λ = 0.3": 27.27},
    },
    "ImageNet, VGG-16-mod": {
        **{"softmax": 25.65, "hinge (14)": 45.17, "modified (15)": 24.92},
        **{"L-Softmax": 24.98, "regularised, λ = 0.3": 24.53, "modified + regularised": 24.37},
    },
    "ImageNet, MobileNetV1": dict(
        zip(_METHODS, (29.84, 55.79, 29.15, 34.12, 39.35, 28.94), strict=True)
    ),
    "ImageNet, ResNeXt-50": {
        **{"softmax": 22.69, "regularised, λ = 0.3": 22.27, "modified + regularised": 22.00},
    },
    "Places-365, VGG-16-mod": {"softmax": 45.02, "regularised, λ = 0.3": 44.61},
}
TABLE_4_SD: Numbers = {
    "CIFAR-10, WideResNet-28-10": dict(
        zip(_METHODS, (0.07, 0.15, 0.07, 0.04, 0.13, 0.05), strict=True)
    ),
    "SVHN, WideResNet-28-10": dict(
        zip(_METHODS, (0.03, 0.04, 0.05, 0.07, 0.03, 0.03), strict=True)
    ),
}
