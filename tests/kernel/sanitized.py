"""The kernel's fuzz under the address and undefined-behaviour sanitizers.

``python tests/kernel/sanitized.py`` builds a library with them, and runs the random calls of
``tests.fuzz`` and the tests of this folder in a process that has the sanitizers' runtime loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from softmargin._kernel import build

ROOT = Path(__file__).parents[2]
FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
)


def main(calls: int = 2000) -> int:
    """Return the exit status of the first of both that fails, or 0."""
    compiler = build.compiler()
    if compiler is None:
        print("There is no C++ compiler.")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / build.LIBRARY.name
        if failure := build.build(library, FLAGS):
            print(failure)
            return 1
        runtimes = [
            subprocess.check_output([*compiler, f"-print-file-name={name}"], text=True).strip()
            for name in ("libasan.so", "libubsan.so")
        ]
        environment = os.environ | {
            "LD_PRELOAD": " ".join(runtimes),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python's own, at exit
            "SOFTMARGIN_KERNEL_FOLDER": folder,
            "OMP_NUM_THREADS": "2",
        }
        fuzz = ["-m", "tests.fuzz", "--calls", str(calls), "--area", "losses"]
        tests = ["-m", "pytest", "-q", "-x", "-n", "0", "-s", "tests/kernel", "-m", "not slow"]
        for command in (fuzz, tests):
            done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment)
            if done.returncode:
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
