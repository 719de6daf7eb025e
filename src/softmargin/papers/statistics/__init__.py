"""Statistics over seeds, folds and data sets: how sure a difference between methods is.

- Over **seeds**: :func:`summary`, and :func:`paired_bootstrap` against a baseline.
- Over the **folds** of repeated cross-validation: :func:`corrected_resampled_t_test`.
- Over **many comparisons**: :func:`holm`.
- Over **data sets**: :func:`average_ranks`, :func:`friedman`, :func:`iman_davenport`,
  :func:`critical_difference`, :func:`cliques`, :func:`wins`.

A chart of kind ``ranks`` (:class:`softmargin.charts.Chart`) shows the last ones.
"""

from softmargin.papers.statistics.many import holm
from softmargin.papers.statistics.paired import (
    Comparison,
    corrected_resampled_t_test,
    paired_bootstrap,
    sign_flip_p,
)
from softmargin.papers.statistics.ranks import (
    RankTest,
    average_ranks,
    cliques,
    complete_sets,
    critical_difference,
    friedman,
    iman_davenport,
)
from softmargin.papers.statistics.spread import Summary, require_spread, summary
from softmargin.papers.statistics.wins import wins

__all__ = [
    "Comparison",
    "RankTest",
    "Summary",
    "average_ranks",
    "cliques",
    "complete_sets",
    "corrected_resampled_t_test",
    "critical_difference",
    "friedman",
    "holm",
    "iman_davenport",
    "paired_bootstrap",
    "require_spread",
    "sign_flip_p",
    "summary",
    "wins",
]
