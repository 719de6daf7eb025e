"""Shared set-up: one thread, a fixed seed before every test, the same examples in every run."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from softmargin._kernel import build, library
from softmargin.functional import _fused

PROCESSOR = Path("/proc/cpuinfo")
BFLOAT16 = "import torch; torch.nn.Linear(64, 64).bfloat16()(torch.ones(64, 64).bfloat16())"

# no test passes or fails by how busy the machine is, or by the examples that were drawn today
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_configure() -> None:
    _avoid_unusable_instructions()
    torch.set_num_threads(1)  # two threads that fight over small tensors are slower than one
    os.environ.pop("COLUMNS", None)  # the width of a runner's terminal is not what is tested
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell leaves it to background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _avoid_unusable_instructions() -> None:
    """Keep oneDNN from AMX on virtual machines that announce it but cannot run it."""
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not PROCESSOR.exists():
        return
    if "amx_tile" in PROCESSOR.read_text():
        broken = subprocess.run([sys.executable, "-c", BFLOAT16], capture_output=True).returncode
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16" if broken else "DEFAULT"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a browser or a cluster as slow; skip what needs data that are not there."""
    for item in items:
        if item.get_closest_marker("browser") or item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("data") and not os.environ.get("SOFTMARGIN_DATA"):
            item.add_marker(pytest.mark.skip(reason="SOFTMARGIN_DATA is not set"))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and tests: they stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def kernel(tmp_path_factory) -> library.Kernel:
    """Return the fused kernel: the installed one, or one that is built for the tests."""
    if _fused.kernel is not None:
        return _fused.kernel
    folder = tmp_path_factory.mktemp("kernel")
    failure = build.build(folder / build.LIBRARY.name)
    if failure is not None:
        pytest.skip(failure)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(library.SWITCH, raising=False)
        built, reason = library.load(folder)
    assert built is not None, reason
    return built


# of two passes over one table the second is slow; without a compiler there is one
SECOND = [pytest.mark.slow] if _fused.kernel is not None or build.compiler() else []


@pytest.fixture(params=["kernel", pytest.param("plain", marks=SECOND)])
def either_path(request):
    """Run a test twice: with the fused kernel, and with PyTorch's operations."""
    wanted = request.getfixturevalue("kernel") if request.param == "kernel" else None
    with _fused.using(wanted, wanted and wanted.instructions):
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def pytest_addoption(parser):
    parser.addoption(
        "--all-classes",
        action="store_true",
        help="compile every loss and head for every number of classes (an hour of one core)",
    )
