"""What happens when the package is built: its kernel is compiled, its README made fit for an index.

The kernel is built where there is a compiler; without one the package is pure.
``SOFTMARGIN_BUILD_KERNEL=0`` leaves it out, ``=1`` makes a failure an error, as for the wheels
that are published.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = r"\[([^\]]*)\]\((?!https?:|#)([^)]+)\)"
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


class ReadmeHook(MetadataHookInterface):
    """Makes the README the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Lead links and images to the repository; without an address for it, leave them out."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        address = metadata.get("urls", {}).get("Repository")
        images, links = ("", r"\1")
        if address:
            images = rf"![\1]({address}/raw/HEAD/\2)"
            links = rf"[\1]({address}/blob/HEAD/\2)"
        text = re.sub(f"!{RELATIVE}\n*", images + "\n\n" * bool(address), text)
        text = re.sub(f"(?<!!){RELATIVE}", links, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
