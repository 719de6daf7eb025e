"""``softmargin doctor``: what is installed, what is missing and for what, threads, kernel, data."""

from __future__ import annotations

import argparse
import os
import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from softmargin._table import print_table
from softmargin.commands.common import Command

EXTRAS = {
    "calibrate": (
        "calibrate and apply on .npz, .npy and .pt",
        {"jinja2": "3.1", "matplotlib": "3.8", "rich": "13"},
    ),
    "lab": (
        "commands, plots, reports, data sets",
        {
            "altair": "6",
            "filelock": "3.12",
            "jinja2": "3.1",
            "matplotlib": "3.8",
            "pillow": "10",
            "platformdirs": "4",
            "pyarrow": "15",
            "python-calamine": "0.9",
            "pyyaml": "6",
            "rich": "13",
            "scikit-learn": "1.4",
            "scipy": "1.11",
            "shtab": "1.8",
            "vl-convert-python": "1.9",
        },
    ),
    "ray": ("experiments on a cluster", {"ray": "2.40"}),
    "transformers": ("Hugging Face", {"transformers": "5"}),
    "lightning": ("Lightning", {"lightning": "2.2"}),
    "skorch": ("skorch", {"skorch": "1"}),
    "torchmetrics": ("torchmetrics", {"torchmetrics": "1"}),
    "boosting": ("XGBoost and LightGBM", {"lightgbm": "4", "xgboost": "3.1"}),
    "export": ("ONNX and safetensors", {"onnxscript": "0.5", "safetensors": "0.4"}),
}
"""By name of an extra, what it is for, and the packages it brings with their lowest versions."""


def declare(_: argparse.ArgumentParser) -> None:
    """Declare nothing: ``softmargin doctor`` has no arguments."""


def run(_: argparse.Namespace) -> None:
    """Print versions, the path that the losses take, data sets, and extras."""
    facts = {**_versions(), **_data()}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
    rows, lacking = [("extra", "for", "packages")], []
    for extra, (purpose, packages) in EXTRAS.items():
        states = [state(package, least) for package, least in packages.items()]
        rows.append((extra, purpose, ", ".join(text for text, _ in states)))
        if not all(usable for _, usable in states):
            lacking.append(extra)
    print()
    print_table(rows)
    if lacking:
        print(f'To add some of them: pip install --upgrade "softmargin[{",".join(lacking)}]"')


def _versions() -> dict[str, str]:
    """Return versions, the machine, and which path the losses take."""
    import softmargin

    rows = {
        "softmargin": softmargin.__version__,
        "Python": platform.python_version(),
        "machine": f"{platform.machine()}, {platform.system()}",
    }
    try:
        import torch
    except (ImportError, OSError) as error:
        return {**rows, "PyTorch": f"cannot be imported: {error}"}
    devices = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("Apple's GPU")
    limit = os.environ.get("OMP_NUM_THREADS")
    given = f", OMP_NUM_THREADS={limit}" if limit else ""
    return {
        **rows,
        "PyTorch": torch.__version__,
        "devices": ", ".join(["CPU", *devices]),
        "threads": f"{torch.get_num_threads()} (processors: {os.cpu_count()}{given})",
        **_kernel(),
    }


def _kernel() -> dict[str, str]:
    """Return whether the losses are computed by the kernel, and what it uses."""
    from softmargin._kernel import build, library
    from softmargin.functional import _fused

    kernel = _fused.kernel
    if kernel is None:
        return {
            "losses": f"by PyTorch's operations: {_fused.reason}",
            "compiler": " ".join(build.compiler() or ["none was found"]),
        }
    return {
        "losses": f"by the fused kernel: {_fused.reason}",
        "instructions": library.INSTRUCTIONS[kernel.instructions],
        "kernel's threads": "PyTorch's own" if kernel.threads else "one: PyTorch's were not found",
    }


def _data() -> dict[str, str]:
    """Return where data sets are looked for, and which are there."""
    from softmargin.data.errors import Sentence
    from softmargin.data.files import DATA, find, search_folders
    from softmargin.data.registry import ENTRIES

    bundled = find_spec("sklearn") is not None  # scikit-learn comes with them
    try:
        folders = search_folders()
        there = {
            name: bundled if entry.bundled else find(entry, folders) is not None
            for name, entry in ENTRIES.items()
        }
    except Sentence as error:
        return {"data folders": str(error)}
    single = [name for name, entry in ENTRIES.items() if not entry.group]
    found = [name for name in single if there[name]]
    for group in dict.fromkeys(entry.group for entry in ENTRIES.values() if entry.group):
        tables = [there[name] for name, entry in ENTRIES.items() if entry.group == group]
        found.append(f"{group} ({sum(tables)} of {len(tables)} tables)")
    named = "" if os.environ.get(DATA) else f"; ${DATA} may name another"
    return {
        "data folders": ", ".join(map(str, folders)) + named,
        "data found": ", ".join(found),
        "data not found": ", ".join(name for name in single if not there[name]) or "none",
    }


def state(package: str, least: str) -> tuple[str, bool]:
    """Return a package with its version or what is wrong, and whether it can be used.

    Example:
        >>> state("nonesuch", "1")
        ('nonesuch missing', False)
        >>> state("numpy", "99")  # doctest: +ELLIPSIS
        ('numpy ... too old', False)
    """
    for name in (package, f"{package}-cpu"):  # as that of XGBoost without the parts for GPUs
        with suppress(PackageNotFoundError):
            found = version(name)
            numbers = [int(part) for part in re.findall(r"\d+", found)]
            usable = numbers >= [int(part) for part in least.split(".")]
            return f"{package} {found}{'' if usable else ' too old'}", usable
    return f"{package} missing", False


COMMAND = Command(
    "say what is installed, what is missing and for what, and which data is found",
    "Print versions, devices and threads, whether the losses are computed by the fused kernel or "
    "by PyTorch's operations and why, which data sets are found where, and which extras are "
    "installed or miss something.",
    declare,
    run,
)
