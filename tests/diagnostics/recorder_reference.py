"""The recorder's results by plain loops over samples and epochs, in float64 and nothing else."""

import math
from itertools import pairwise

import numpy as np


def observe(row, target):
    """Return confidence, whether it was right, margin and ρ̂ of one sample's logits."""
    row = [float(z) for z in row]
    rival = max(z for i, z in enumerate(row) if i != target)
    bias = math.log(math.fsum(math.exp(z - rival) for i, z in enumerate(row) if i != target))
    margin = row[target] - rival
    odds = margin - bias
    confidence = 1 / (1 + math.exp(-odds)) if odds > 0 else math.exp(odds) / (1 + math.exp(odds))
    return confidence, row.index(max(row)) == target, margin, bias


class SlowRecorder:
    """One model; a dictionary per epoch holds the last observation of every sample seen."""

    def __init__(self, num_samples):
        self.num_samples = num_samples
        self.epochs = []
        self.now = {}

    def update(self, index, logits, target):
        for i, row, t in zip(index.tolist(), logits.tolist(), target.tolist(), strict=True):
            self.now[i] = observe(row, t)

    def end_epoch(self):
        self.epochs.append(self.now)
        self.now = {}

    def column(self, number):
        rows = [
            [e[i][number] if i in e else math.nan for i in range(self.num_samples)]
            for e in self.epochs
        ]
        return np.array(rows, dtype=np.float64)

    def histogram(self, epoch):
        return histogram([each[0] for each in self.epochs[epoch].values()])

    def mean_bias(self):
        return [math.fsum(x[3] for x in e.values()) / len(e) for e in self.epochs]

    def data_map(self, i):
        seen = [e[i] for e in self.epochs if i in e]
        if not seen:
            return (math.nan,) * 4 + (0, False)
        n = len(seen)
        mean = math.fsum(x[0] for x in seen) / n
        spread = math.sqrt(math.fsum((x[0] - mean) ** 2 for x in seen) / n)
        rights = [x[1] for x in seen]
        forgotten = sum(a and not b for a, b in pairwise(rights))
        margin = math.fsum(x[2] for x in seen) / n
        return mean, spread, sum(rights) / n, margin, forgotten, not any(rights)


def histogram(values):
    counts = [0] * 5
    for p in values:
        if not math.isnan(p):
            counts[sum(p > edge for edge in (0.2, 0.4, 0.6, 0.8))] += 1
    return counts


def groups(confidence, count, final=None):
    """Return curves and members; confidence is a list of epochs, NaN where not seen."""
    final = confidence[-1] if final is None else final
    ranked = sorted((p, i) for i, p in enumerate(final) if not math.isnan(p))
    members = [-1] * len(final)
    for rank, (_, i) in enumerate(ranked):
        members[i] = rank * count // len(ranked)
    curves = []
    for epoch in confidence:
        line = []
        for g in range(count):
            own = [p for p, m in zip(epoch, members, strict=True) if m == g and not math.isnan(p)]
            line.append(math.fsum(own) / len(own) if own else math.nan)
        curves.append(line)
    return curves, members
