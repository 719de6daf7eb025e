"""Every head as one row of data. A new head gets all tests of ``test_heads.py`` by its row.

``reference`` gives the logits of one sample in training (or, with no target, in inference) from
plain Python floats and shares nothing with the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softmargin import heads


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def length(a):
    return math.sqrt(dot(a, a))


def angle(a, b):
    return math.acos(max(-1.0, min(1.0, dot(a, b) / (length(a) * length(b)))))


def rows(head):
    return head.weight.detach().double().tolist()


def linear(head, x, c):
    return [dot(w, x) + b for w, b in zip(rows(head), head.bias.tolist(), strict=True)]


def cosine_family(target_logit):
    def reference(head, x, c):
        scale = float(head.scale)
        angles = [angle(w, x) for w in rows(head)]
        logits = [scale * math.cos(a) for a in angles]
        if c is not None:
            logits[c] = scale * target_logit(angles[c], head)
        return logits

    return reference


def arcface(theta, head):
    m = float(head.margin)
    if head.beyond == "easy" and math.cos(theta) <= 0:
        return math.cos(theta)
    if head.beyond == "monotone" and theta > math.pi - m:
        return math.cos(theta) - m * math.sin(m)
    return math.cos(theta + m)


def l_softmax(unit_weights):
    def reference(head, x, c):
        logits = []
        for j, w in enumerate(rows(head)):
            theta = angle(w, x)
            value = math.cos(theta)
            if j == c:
                step = min(math.floor(head.k * theta / math.pi), head.k - 1)
                psi = (-1) ** step * math.cos(head.k * theta) - 2 * step
                lam = float(head.anneal)
                value = (lam * value + psi) / (1 + lam)
            logits.append(length(x) * (1.0 if unit_weights else length(w)) * value)
        return logits

    return reference


def arcgrad(head, x, c):
    return [-float(head.scale) * angle(w, x) for w in rows(head)]


def gaussian(head, x, c):
    logits = []
    for k, (mean, logs) in enumerate(zip(rows(head), head.log_variance.tolist(), strict=True)):
        d = 0.5 * sum((a - m) ** 2 / math.exp(v) for a, m, v in zip(x, mean, logs, strict=True))
        logits.append(-d * (1 + float(head.margin) * (k == c)) - 0.5 * sum(logs))
    return logits


def simplex(head, x, c):
    return [dot(w, x) for w in rows(head)]


@dataclass
class HeadCase:
    """One head: its class, sets of its own arguments, its reference, its mistakes."""

    module: type[heads.Head]
    options: list[dict[str, Any]]
    reference: Callable[..., list[float]]
    margin: bool = True
    state: str | None = None
    bad: list[tuple[dict[str, Any], type[Exception], str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.module.__name__


BAD_SCALE = [
    ({"scale": 0.0}, ValueError, "scale must be a finite number above 0, but got 0.0"),
    ({"scale": math.nan}, ValueError, "scale must be a finite number above 0, but got nan"),
]
BAD_K = [
    ({"k": 0}, ValueError, "k must be at least 1, but got 0"),
    ({"k": 1.5}, TypeError, "k must be a whole number, but got 1.5"),
    ({"anneal": -1.0}, ValueError, "anneal must be a finite number of at least 0, but got -1.0"),
]
CASES = [
    HeadCase(heads.LinearHead, [{}], linear, margin=False),
    HeadCase(
        heads.CosineHead,
        [{}, {"scale": 5.0}],
        cosine_family(lambda theta, head: math.cos(theta)),
        margin=False,
        state="scale",
        bad=BAD_SCALE,
    ),
    HeadCase(
        heads.CosFaceHead,
        [{}, {"scale": 5.0, "margin": 0.2}],
        cosine_family(lambda theta, head: math.cos(theta) - float(head.margin)),
        state="margin",
        bad=[({"margin": -0.1}, ValueError, "margin must be a finite number of at least 0")],
    ),
    HeadCase(
        heads.ArcFaceHead,
        [
            {"scale": 8.0},
            {"scale": 5.0, "margin": 1.2, "beyond": "monotone"},
            {"scale": 5.0, "margin": 1.2, "beyond": "easy"},
            {"scale": 5.0, "margin": 1.2, "beyond": "none"},
        ],
        cosine_family(arcface),
        state="margin",
        bad=[
            *BAD_SCALE,
            (
                {"margin": 3.2},
                ValueError,
                "margin must be a finite number of at least 0 and below 3.14159, but got 3.2",
            ),
            (
                {"beyond": "pi"},
                ValueError,
                "beyond must be one of monotone, easy, none, but got 'pi'",
            ),
        ],
    ),
    HeadCase(
        heads.AdaCosHead,
        [{"dynamic": False}],
        cosine_family(lambda theta, head: math.cos(theta)),
        margin=False,
        state="scale",
    ),
    HeadCase(
        heads.LSoftmaxHead,
        [{}, {"k": 1}, {"k": 2, "anneal": 3.0}, {"k": 3}],
        l_softmax(unit_weights=False),
        state="anneal",
        bad=BAD_K,
    ),
    HeadCase(
        heads.ASoftmaxHead,
        [{}, {"k": 2, "anneal": 3.0}],
        l_softmax(unit_weights=True),
        state="anneal",
        bad=BAD_K,
    ),
    HeadCase(
        heads.ArcGradHead,
        [{}, {"scale": 2.0}],
        arcgrad,
        margin=False,
        state="scale",
        bad=BAD_SCALE,
    ),
    HeadCase(
        heads.GaussianHead,
        [{}, {"margin": 0.5}],
        gaussian,
        state="margin",
        bad=[({"margin": -1.0}, ValueError, "margin must be a finite number of at least 0")],
    ),
    HeadCase(
        heads.SimplexHead,
        [{}, {"scale": 3.0}],
        simplex,
        margin=False,
        state="scale",
        bad=BAD_SCALE,
    ),
]
EVERY_HEAD = {case.name: case for case in CASES}
EVERY_OPTION = {
    f"{case.name}-{i}": (case, options) for case in CASES for i, options in enumerate(case.options)
}
