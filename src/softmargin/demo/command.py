"""The demo as a command: progress while it runs, a table at its end, its files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from softmargin._files import write_file
from softmargin._progress import progress
from softmargin._table import print_paragraph, print_table
from softmargin.demo import results
from softmargin.demo.page import demo_page
from softmargin.demo.setting import DemoSetting
from softmargin.demo.training import Outcome, run_demo


def run_with_progress(setting: DemoSetting) -> list[Outcome]:
    """Run the demo, and show on standard error how far it is."""
    networks = len(setting.configurations) * setting.num_seeds
    print(f"Training {networks} small networks on handwritten digits.", file=sys.stderr, flush=True)
    total, done = networks * setting.epochs, 0
    with progress() as show:

        def on_epoch() -> None:
            nonlocal done
            done += 1
            network = min(1 + done // setting.epochs, networks)
            show(done, total, f"training network {network} of {networks}")

        return run_demo(setting, on_epoch)


def write_report(setting: DemoSetting, outcomes: Sequence[Outcome], out: Path) -> Path:
    """Write the numbers and the page, each whole or not at all; return where the page is.

    Raises:
        OSError: where they cannot be written.
    """
    numbers, page = results.to_json(setting, outcomes), demo_page(setting, outcomes)
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / "results.json", numbers)
    write_file(out / "index.html", page)
    return out / "index.html"


def show_results(setting: DemoSetting, outcomes: Sequence[Outcome]) -> None:
    """Print the setting, the table and what its rows and columns mean."""
    headings = ["β", *(column.short for column in results.COLUMNS)]
    print_paragraph(results.describe(setting) + ".")
    print()
    print_table([headings, *results.table_rows(outcomes)], right=headings[1:])
    print()
    seeds = f"{setting.num_seeds} seeds" if setting.num_seeds > 1 else "one seed (no sd)"
    print_paragraph(
        f"Mean ± sd over {seeds}, on the test images. ECE has 10 bins. conf − acc above 0 is "
        "over-confident, below 0 under-confident. NLL is in nats."
    )
    print_paragraph(results.describe_warm_up(setting))
