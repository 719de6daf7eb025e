"""Simulated predictions, and slow independent implementations of the metrics in plain Python."""

import math
from fractions import Fraction

import torch


def simulate(samples, classes, seed=0, *, temperature=0.7, spread=3.0, dtype=torch.float32):
    """Return logits, and targets drawn from softmax(temperature · logits)."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(samples, classes, generator=generator)
    chances = (temperature * logits).softmax(1)
    target = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    return logits.to(dtype), target


def slow_bin(value, bins, closed="right"):
    """Return the bin of a value by comparing it with every edge m / M, rounded correctly."""
    edges = [m / bins for m in range(bins + 1)]
    for m in range(bins):
        last = m == bins - 1
        if closed == "right" and (value <= edges[m + 1] or last):
            return m
        if closed == "left" and (value < edges[m + 1] or last):
            return m
    raise AssertionError(value)


def slow_bins(confidence, correct, bins, weight=None, closed="right"):
    """Return (weight, mean confidence, accuracy) of every bin that is not empty."""
    weight = [1.0] * len(confidence) if weight is None else weight
    members = [[] for _ in range(bins)]
    for c, y, w in zip(confidence, correct, weight, strict=True):
        members[slow_bin(c, bins, closed)].append((c, float(y), w))
    result = []
    for each in members:
        mass = math.fsum(w for _, _, w in each)
        if mass:
            mean = math.fsum(w * c for c, _, w in each) / mass
            result.append((mass, mean, math.fsum(w * y for _, y, w in each) / mass))
    return result


def slow_ece(confidence, correct, bins, weight=None, closed="right"):
    filled = slow_bins(confidence, correct, bins, weight, closed)
    return math.fsum(w * abs(c - a) for w, c, a in filled) / math.fsum(w for w, _, _ in filled)


def slow_equal_mass(confidence, correct, bins):
    """Cut every prediction into ``bins`` equal pieces, sort them, and deal them out.

    Pieces of equal confidence are all given their mean correctness, so that none comes first.
    """
    by_confidence = {}
    for c, y in zip(confidence, correct, strict=True):
        by_confidence.setdefault(c, []).append(bool(y))
    pieces = []
    for c in sorted(by_confidence):
        group = by_confidence[c]
        residual = Fraction(c) - Fraction(sum(group), len(group))
        pieces += [residual] * (len(group) * bins)
    size = len(pieces) // bins
    parts = [pieces[start : start + size] for start in range(0, len(pieces), size)]
    return float(sum(abs(sum(part)) for part in parts) / len(pieces))


def slow_classwise(probabilities, target, bins, closed="right"):
    """Return the ECE of each class, one after the other."""
    return [
        slow_ece(column, [t == k for t in target], bins, closed=closed)
        for k, column in enumerate(zip(*probabilities, strict=True))
    ]


def slow_ks(confidence, correct):
    """Return the largest |cumulative residual| / n, once all of equal confidence are in."""
    pairs = sorted(zip(confidence, correct, strict=True))
    largest, total = 0.0, 0.0
    for i, (c, y) in enumerate(pairs):
        total += c - float(y)
        if i + 1 == len(pairs) or pairs[i + 1][0] != c:
            largest = max(largest, abs(total))
    return largest / len(pairs)
