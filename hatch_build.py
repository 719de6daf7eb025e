"""Builds the kernel with the package where there is a compiler; without one the package is pure.

``SOFTMARGIN_BUILD_KERNEL=0`` leaves it out, ``=1`` makes a failure an error, as for the wheels
that are published.
"""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/softmargin/_kernel"


class KernelHook(BuildHookInterface):
    """Compiles the sources in ``src/softmargin/_kernel``."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Build the library before the files are collected, and name the wheel after it."""
        wanted = os.environ.get("SOFTMARGIN_BUILD_KERNEL", "")
        if self.target_name != "wheel" or wanted == "0":
            return
        path = Path(self.root) / FOLDER / "build.py"
        spec = importlib.util.spec_from_file_location("build_kernel", path)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(f"There is no {path}.")
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        failure = build.build()
        if failure is not None:
            if wanted == "1":
                raise RuntimeError(f"The kernel could not be built: {failure}")
            self.app.display_warning(f"softmargin is installed without its kernel: {failure}")
            return
        # the library knows neither Python's version nor PyTorch's: only the platform counts
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}"
        build_data["artifacts"].append(f"/{FOLDER}/{build.LIBRARY.name}")
