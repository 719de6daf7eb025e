"""``softmargin reproduce report``: one page over all results."""

from __future__ import annotations

import argparse

from softmargin.commands.common import UsageError, writing_to

PAGE = "index.html"


def write_report(options: argparse.Namespace) -> None:
    """Write the report over a results folder into that folder."""
    from softmargin.papers.report import write_results_page

    path = options.out / PAGE
    try:
        with writing_to(options.out):
            write_results_page(options.out, path)
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB): open it in a browser")
