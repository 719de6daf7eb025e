"""The compiled library of the fused kernel, if there is one.

It is plain C++ behind ``ctypes``: it needs no headers of PyTorch or Python to build, works with
every version of both, and may be missing. Nothing here imports PyTorch.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
NAME = "softmargin_kernel.so"
SWITCH = "SOFTMARGIN_KERNEL"
ELSEWHERE = "SOFTMARGIN_KERNEL_FOLDER"
"""Names another folder with a library, such as one that was built with sanitizers."""

ADDRESSES = struct.Struct("7P")
LAYOUT = struct.Struct("7P 12q q 5d 8i".replace(" ", ""))
"""One call, as ``struct Call`` in ``call.h`` has it; the addresses are what changes by batch."""

MEASURE = struct.Struct("3P3q4i")
"""One call for the metrics, as ``struct Measure`` in ``call.h`` has it."""

TALLY = struct.Struct("7P7qd4i")
"""One call to add rows up, as ``struct Tally`` in ``call.h`` has it."""

DIRECTIONS = struct.Struct("15P4q3d6i")
"""One call for cosines or angles, as ``struct Directions`` in ``call.h`` has it."""

GAUSSIAN = struct.Struct("16P5qd4i")
"""One call for Gaussians, as ``struct Gaussian`` in ``call.h`` has it."""

NETWORKS = struct.Struct("25P9q3d8i")
"""One step of small networks, as ``struct Networks`` in ``call.h`` has it, before their layers."""

LAYER = struct.Struct("6P6q")
"""One of their layers, as ``struct Layer`` in ``call.h`` has it."""

NAMES = ("loss", "scale", "measure", "tally", "directions", "gaussian", "networks")
"""The functions that take a packed call."""

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
INSTRUCTIONS = ("baseline", "AVX2", "AVX-512")


@dataclass(frozen=True)
class Kernel:
    """The library's functions; each takes one packed call."""

    loss: Callable[[bytes], int]
    scale: Callable[[bytes], int]
    measure: Callable[[bytes], int]
    tally: Callable[[bytes], int]
    directions: Callable[[bytes], int]
    gaussian: Callable[[bytes], int]
    networks: Callable[[bytes], int]
    instructions: int
    threads: bool
    """Whether PyTorch's threads were found."""


def load(folder: Path | None = None) -> tuple[Kernel | None, str]:
    """Return the kernel, or None, and why: one sentence without a full stop."""
    folder = folder or Path(os.environ.get(ELSEWHERE, FOLDER))
    if os.environ.get(SWITCH, "1").strip().lower() in ("0", "off", "no", "false"):
        return None, f"switched off by {SWITCH}={os.environ[SWITCH]}"
    path = folder / NAME
    if not path.exists():
        return None, "the package was installed without a compiled library"
    try:
        library = ctypes.CDLL(str(path))
        layout = library.softmargin_layout()
        if layout != LAYOUT.size:
            return None, "the compiled library belongs to another version of the package"
        best = library.softmargin_instructions()
        threads = bool(library.softmargin_find_threads())
        functions = [getattr(library, f"softmargin_{name}") for name in NAMES]
    except (OSError, AttributeError) as error:
        return None, f"the compiled library cannot be loaded: {error}"
    for function in functions:
        function.argtypes = [ctypes.c_char_p]
        function.restype = ctypes.c_int32
    loss, scale, measure, tally, directions, gaussian, networks = functions
    found = Kernel(loss, scale, measure, tally, directions, gaussian, networks, best, threads)
    return found, "the compiled library was loaded"
