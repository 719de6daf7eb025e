"""Findings about variants, which are named by their β."""

from __future__ import annotations

from collections.abc import Sequence

from softmargin.papers import findings
from softmargin.papers.findings import RULE as COMMON_RULE
from softmargin.papers.mnist.cells import BASELINE, label
from softmargin.papers.mnist.seeds import ByVariant
from softmargin.papers.outcome import Finding

RULE = (
    f"{COMMON_RULE} With n seeds the exact p-values of the tables cannot be below 2/2ⁿ (0.0625 for "
    "5), before Holm's correction: intervals say more there."
)


def compare(
    what: str, values: ByVariant, variant: str, sign: int, digits: int, baseline: str = BASELINE
) -> Finding:
    """Find whether a variant lies above (sign 1) or below (-1) another beyond the spread."""
    names = label(variant), label(baseline)
    return findings.compare(what, _labelled(values, [variant, baseline]), names, sign, digits)


def monotone(what: str, values: ByVariant, order: Sequence[str], sign: int, digits: int) -> Finding:
    """Find whether the means never move against a direction from each variant to the next."""
    return findings.monotone(what, _labelled(values, order), sign, digits)


def _labelled(values: ByVariant, variants: Sequence[str]) -> ByVariant:
    return {label(variant): values[variant] for variant in variants}
