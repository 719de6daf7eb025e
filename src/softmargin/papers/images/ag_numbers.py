"""The numbers that the ArcGrad paper prints for images: accuracy in %, angles in radians."""

from __future__ import annotations

from collections.abc import Sequence

from softmargin.papers.images.runs import Numbers

METHODS = ("Soft", "Center", "M-Soft", "ArcFace", "AdaCos", "ArcGrad")


def _row(values: Sequence[float]) -> dict[str, float]:
    return dict(zip(METHODS, values, strict=True))


TABLE_4: Numbers = {
    "CIFAR-10, ResNet18, augmented": _row((93.50, 93.54, 93.55, 94.23, 94.10, 94.36)),
    "CIFAR-10, ResNet18": _row((86.2, 86.43, 86.53, 87.62, 87.30, 87.83)),
}
TABLE_5_TOP_1: Numbers = {"CIFAR-100, ResNet34": _row((72.55, 74.48, 73.02, 74.55, 72.93, 75.12))}
TABLE_5_TOP_5: Numbers = {"CIFAR-100, ResNet34": _row((89.56, 91.54, 90.63, 89.73, 85.97, 90.98))}
TABLE_6: Numbers = {
    "wc_intra": _row((0.80, 0.42, 0.69, 0.39, 0.41, 0.24)),
    "w_inter": _row((1.37, 1.63, 1.34, 1.55, 1.42, 1.68)),
    "c_inter": _row((1.52, 1.63, 1.67, 1.68, 1.55, 1.66)),
}
TABLE_7: Numbers = {
    "10 epochs": _row((72.84, 75.08, 83.38, 87.70, 85.81, 88.34)),
    "20 epochs": _row((87.05, 85.90, 85.93, 91.72, 91.20, 91.77)),
    "40 epochs": _row((89.98, 91.71, 91.89, 92.92, 92.80, 93.38)),
    "90 epochs": _row((93.39, 93.69, 93.38, 94.31, 94.10, 94.59)),
}
