"""Compile the kernel: ``python -m softmargin._kernel.build``, and whenever the package is built.

It imports nothing but the standard library, and not even the package: the build hook loads this
file by its path.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "softmargin_kernel.so"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
]
AVX2 = ["-mavx2", "-mfma"]
AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"]
COPIES = {"baseline": (16, []), "avx2": (32, AVX2), "avx512": (64, [*AVX2, *AVX512])}
"""By name of a compiled copy of the rows, the bytes of its vectors and its flags."""

PARTS = ("rows", "directions", "gaussian", "networks")
"""The sources that are compiled once for every copy."""


def compiler() -> list[str] | None:
    """Return the C++ compiler to call: ``CXX``, or what is installed; None without one."""
    if given := os.environ.get("CXX"):
        return shlex.split(given)
    found = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    return None if found is None else [found]


def build(target: Path = LIBRARY, extra: tuple[str, ...] = ()) -> str | None:
    """Compile the library; return why that failed, or None.

    Args:
        target: the file to write, only if all went well.
        extra: more flags, such as those of a sanitizer.
    """
    command = compiler()
    if command is None:
        return "no C++ compiler was found"
    if sys.platform == "win32":
        return "the kernel is not built for Windows"
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    flags = [*FLAGS, *(["-DX86"] if x86 else []), *extra]
    with tempfile.TemporaryDirectory() as folder:
        jobs = [("kernel.cpp", "kernel", flags)]
        for name, (width, more) in COPIES.items():
            if x86 or name == "baseline":
                own = [
                    f"-DWIDTH={width}",
                    f"-DCOPY=rows_{name}",
                    f"-DMEASURE=measure_{name}",
                    f"-DTALLY=tally_{name}",
                    f"-DDIRECTIONS=directions_{name}",
                    f"-DGAUSSIAN=gaussian_{name}",
                    f"-DNETWORKS=networks_{name}",
                    *more,
                ]
                for part in PARTS:
                    jobs.append((f"{part}.cpp", f"{part}_{name}", [*flags, *own]))
        objects = []
        for source, name, options in jobs:
            objects.append(str(Path(folder) / f"{name}.o"))
            compile_one = [*command, *options, "-c", str(FOLDER / source), "-o", objects[-1]]
            if failure := _run(compile_one):
                return failure
        made = Path(folder) / LIBRARY.name
        libraries = [] if sys.platform == "darwin" else ["-Wl,--as-needed", "-ldl"]
        link = [*command, "-shared", *extra, *objects, "-o", str(made), *libraries]
        if failure := _run(link):
            return failure
        # a copy under another name first: a process may have the old one open
        shutil.copy(made, beside := target.with_name(f".{target.name}.{os.getpid()}"))
        beside.replace(target)
    return None


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"the compiler could not be started: {error}"
    if done.returncode:
        return f"{shlex.join(command)} failed:\n{done.stderr.strip()}"
    return None


if __name__ == "__main__":
    sys.exit(build())
