"""One run over everything, as plain values, and what is written of it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from softmargin._kernel import library
from softmargin._progress import Progress
from softmargin.bench import losses, metrics, peers, sizes, together
from softmargin.bench.measure import PARTS, ratios
from softmargin.charts import Chart, Series
from softmargin.functional import _fused

CASES: dict[str, Callable[[bool], Iterator[peers.Case]]] = {
    "losses": losses.of_losses,
    "linear": losses.of_linear,
    "heads": losses.of_heads,
    "metrics": metrics.of_metrics,
    "together": together.of_together,
}
PACKAGES = ("torch", "numpy", "torchmetrics", "netcal", "scikit-learn", "pytorch-metric-learning")
LONG_PARTS = 3

Results = dict[str, Any]


def measure(
    groups: Sequence[str], quick: bool, threads: int, seconds: float, show: Progress
) -> Results:
    """Return every ratio, and how time, memory and bandwidth grow."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    peers.skipped.clear()
    results: Results = {"machine": machine(threads), "quick": quick, "ratios": []}
    sized: dict[str, Callable[[], list[sizes.Row]]] = {
        "growth": lambda: sizes.growth(quick, seconds),
        "memory": lambda: sizes.memory(quick),
        "roofline": lambda: sizes.roofline(quick, seconds),
    }
    for done, group in enumerate(groups):
        show(done, len(groups), group)
        if group in sized:
            results[group] = sized[group]()
            continue
        for case in CASES[group](quick):
            show(done, len(groups), f"{case.group}, {case.work}")
            parts = PARTS if not case.long else 1 if quick else LONG_PARTS
            results["ratios"] += compare(case, seconds, parts)
    results["skipped"] = list(peers.skipped)
    return results


def compare(case: peers.Case, seconds: float, parts: int = PARTS) -> list[Results]:
    """Return one row per contender, with its bound where there is one."""
    found = ratios(case.contenders, seconds, parts)
    base = case.shares.get(found[0].name, 1.0)
    rows = []
    for each in found:
        share = case.shares.get(each.name, 1.0)
        row = {"group": case.group, "work": case.work, **asdict(each)}
        row["seconds"] /= share
        for name in ("ratio", "low", "high"):
            row[name] *= base / share
        rows.append(row)
    fastest = min((row["ratio"] for row in rows if row["name"] in case.peers), default=1.0)
    for row in rows:
        bound = case.bounds.get(row["name"])
        row["bound"] = None if bound is None else bound * fastest
    return rows


def machine(threads: int) -> dict[str, Any]:
    """Return what the numbers depend on, and nothing that names the machine or its owner."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    kernel = _fused.kernel
    return {
        "processor": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "threads": threads,
        "kernel": None if kernel is None else library.INSTRUCTIONS[kernel.instructions],
        "python": platform.python_version(),
        "versions": versions,
    }


def tables(results: Results) -> Iterator[tuple[str, list[list[str]]]]:
    """Give titles and tables, headings first."""
    if found := results["ratios"]:
        title = "Ratios to the first contender of each work (* above the bound)"
        headings = ["", "work", "contender", "time", "ratio", "spread", "bound"]
        yield title, [headings, *map(_of_ratio, found)]
    if found := results.get("growth"):
        headings = ["axis", "contender", "sizes", "times", "p"]
        yield "Growth: time ∝ size^p", [headings, *map(_of_growth, found)]
    if found := results.get("memory"):
        headings = ["work", "contender", "MB", "logits"]
        yield "Peak memory of forward + backward", [headings, *map(_of_memory, found)]
    if found := results.get("roofline"):
        headings = ["work", "contender", "GB/s", "of a copy"]
        yield "Bytes moved beside a copy", [headings, *map(_of_roofline, found)]


def _of_ratio(row: Results) -> list[str]:
    bound = "" if row["bound"] is None else f"≤ {row['bound']:.3g}"
    if bound and row["ratio"] > row["bound"]:
        bound += " *"
    spread = f"{row['low']:.2f}-{row['high']:.2f}"
    names = [row["group"], row["work"], row["name"]]
    return [*names, _time(row["seconds"]), f"{row['ratio']:.3g}", spread, bound]


def _of_growth(row: Results) -> list[str]:
    sizes, times = ", ".join(map(str, row["sizes"])), ", ".join(map(_time, row["seconds"]))
    return [row["axis"], row["name"], sizes, times, f"{row['exponent']:.2f}"]


def _of_memory(row: Results) -> list[str]:
    buffers = f"{row['buffers']:.2f} ×" if "buffers" in row else ""
    return [row["work"], row["name"], f"{row['bytes'] / 1e6:.1f}", buffers]


def _of_roofline(row: Results) -> list[str]:
    share = f"{100 * row['share']:.0f} %"
    return [row["work"], row["name"], f"{row['gigabytes_per_second']:.1f}", share]


def charts(results: Results) -> list[Chart]:
    """Return the ratios as bars and the growth as lines, as far as they were measured."""
    found = []
    ratios = [row for row in results["ratios"] if row["ratio"] != 1]
    if ratios:
        names = [f"{row['name']}, {row['work']}" for row in ratios]
        columns = {key: [row[key] for row in ratios] for key in ("ratio", "low", "high")}
        places = list(range(len(ratios)))
        bars = Series("ratio", places, columns["ratio"], columns["low"], columns["high"])
        label = "time, as a ratio to the first contender"
        title = "Time beside the usual choice"
        found.append(Chart("ratios", title, "bars", "", label, [bars], categories=names))
    if results.get("growth"):
        lines = [
            Series(
                f"{row['name']}, {row['axis']}^{row['exponent']:.2f}", row["sizes"], row["seconds"]
            )
            for row in results["growth"]
        ]
        title = "How time grows with samples N, classes C, models K"
        found.append(
            Chart("growth", title, "line", "size", "seconds", lines, log_x=True, log_y=True)
        )
    return found


def write(results: Results, out: Path) -> list[Path]:
    """Write the values as JSON and the charts as SVG where they can be drawn; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = {"bench.json": json.dumps(results, indent=1, ensure_ascii=False) + "\n"}
    try:
        from softmargin.charts import vega

        files |= {f"{chart.name}.svg": vega.svg(chart) for chart in charts(results)}
    except ModuleNotFoundError as error:
        results["skipped"].append(f"charts: {error.name} is not installed")
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in files]


def _time(seconds: float) -> str:
    if seconds < 0.01:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
