"""Where PyTorch's inductor can compile at all."""

from __future__ import annotations

import shutil

import pytest
import torch

needs_inductor = pytest.mark.skipif(
    shutil.which("g++") is None or " " in torch.__file__,
    reason="inductor needs a C++ compiler, and to be installed in a path without spaces",
)
