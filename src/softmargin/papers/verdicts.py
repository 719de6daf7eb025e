"""The claims of the papers and what became of them, as one page.

``python -m softmargin.papers.verdicts results > docs/verdicts.md``
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from softmargin._table import markdown_table as grid
from softmargin.papers.outcome import VERDICTS
from softmargin.papers.write import read_results

TITLES = {
    "GD": "Gradient decay",
    "LM": "Large margin in softmax cross-entropy",
    "AG": "ArcGrad",
    "SM": "Beyond the papers",
}
LEAD = (
    "What each table or figure of the papers is there to show, and what was found when it was "
    "made again. The words are explained with the [results](../results/README.md); every page "
    "there has the numbers, their spread, and where its recipe differs from the paper's. At desk "
    "scale convolutional networks have small stand-ins, so that a verdict is about the direction "
    "of an effect; MNIST, Iris and the UCI tables are at the papers' full size."
)


def verdicts_page(results: Path) -> str:
    """Return the page over all results in a folder.

    Raises:
        ValueError: where the folder has none, or some that cannot be read.
    """
    found = read_results(results)
    if not found:
        raise ValueError(f"results must be a folder with results, but {str(results)!r} has none.")
    counts = Counter(outcome.verdict.word for _, outcome in found)
    tally = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
    parts = ["# Claims and verdicts", LEAD, f"So far: {tally}."]
    for paper, title in TITLES.items():
        rows = [
            [
                f"[{meta['id']}](../results/{meta['id']}/README.md)",
                meta["claim"],
                f"{meta['scale']}, {_seeds(len(meta['seeds']))}",
                f"**{outcome.verdict.word}**",
                outcome.verdict.sentence,
            ]
            for meta, outcome in found
            if meta["paper"] == paper
        ]
        if rows:
            headings = ["id", "claim", "run at", "verdict", "what was measured"]
            parts += [f"## {title}", grid(headings, rows, "lllll")]
    return "\n\n".join(parts) + "\n"


def _seeds(count: int) -> str:
    return f"{count} seeds" if count > 1 else "no seeds"


if __name__ == "__main__":
    try:
        print(verdicts_page(Path(sys.argv[1] if len(sys.argv) > 1 else "results")), end="")
    except ValueError as error:
        sys.exit(str(error))
