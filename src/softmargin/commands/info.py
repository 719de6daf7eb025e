"""``softmargin info``: versions, and which path the losses take."""

from __future__ import annotations

import argparse

from softmargin.commands.common import Command


def declare(_: argparse.ArgumentParser) -> None:
    """Declare nothing: ``softmargin info`` has no arguments."""


def run(_: argparse.Namespace) -> None:
    """Print versions, threads, instructions and the path that the losses take."""
    import platform

    import torch

    import softmargin
    from softmargin._kernel import library
    from softmargin.functional import _fused

    kernel = _fused.kernel
    rows = {
        "softmargin": softmargin.__version__,
        "PyTorch": torch.__version__,
        "Python": platform.python_version(),
        "machine": f"{platform.machine()}, {platform.system()}",
        "threads": str(torch.get_num_threads()),
    }
    if kernel is None:
        rows["losses"] = f"by PyTorch's operations: {_fused.reason}"
    else:
        rows["losses"] = f"by the fused kernel: {_fused.reason}"
        rows["instructions"] = library.INSTRUCTIONS[kernel.instructions]
        found = "PyTorch's own" if kernel.threads else "one: PyTorch's were not found"
        rows["kernel's threads"] = found
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value}")


COMMAND = Command(
    "say which path the losses take on this machine, and why",
    "Print versions, threads and instructions, and whether the losses are computed by the fused "
    "kernel or by PyTorch's operations, with the reason.",
    declare,
    run,
)
