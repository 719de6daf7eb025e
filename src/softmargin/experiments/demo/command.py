"""The demo as a command: a progress bar while it runs, a table at its end, its files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from softmargin._files import write_file
from softmargin.experiments.demo import results
from softmargin.experiments.demo.page import demo_page
from softmargin.experiments.demo.setting import DemoSetting
from softmargin.experiments.demo.training import Outcome, run_demo


def prepare_folder(out: Path) -> None:
    """Create the folder and see that it can be written to, before any time is spent.

    Raises:
        OSError: where it cannot.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass


def run_with_progress(setting: DemoSetting) -> list[Outcome]:
    """Run the demo with a live progress bar on standard error."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, highlight=False)
    networks = len(setting.configurations) * setting.num_seeds
    console.print(f"Training {networks} small networks on handwritten digits.")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("training", total=networks * setting.epochs)
        return run_demo(setting, lambda: progress.advance(task))


def write_report(setting: DemoSetting, outcomes: Sequence[Outcome], out: Path) -> Path:
    """Write the numbers and the page; return where the page is.

    Raises:
        OSError: where they cannot be written.
    """
    write_file(out / "results.json", results.to_json(setting, outcomes))
    page = out / "index.html"
    write_file(page, demo_page(setting, outcomes))
    return page


def print_table(setting: DemoSetting, outcomes: Sequence[Outcome]) -> None:
    """Print the setting, the table and what its rows and columns mean."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("β", justify="left", vertical="bottom", no_wrap=True)
    for column in results.COLUMNS:
        table.add_column(column.short, justify="right", vertical="bottom", no_wrap=True)
    for row in results.table_rows(outcomes):
        table.add_row(*row)
    console = Console(highlight=False)
    console.print(results.describe(setting) + ".\n")
    console.print(table)
    seeds = f"{setting.num_seeds} seeds" if setting.num_seeds > 1 else "one seed (no sd)"
    console.print(
        f"Mean ± sd over {seeds}, on the test images. ECE has 10 bins. conf − acc above 0 is "
        "over-confident, below 0 under-confident."
    )
    console.print(results.describe_warm_up(setting))
