"""Leave out programs, and what needs a framework that is missing; say what is slow.

Slow are tests that need a framework, and of one with very many cases three quarters of them.
"""

import zlib
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# what needs which framework
NEEDS = {
    "src/softmargin/functional/_triton_rows.py": "triton",
    "tests/kernel/triton_interpreted.py": "triton",
    "src/softmargin/integrations/boosting/lightgbm.py": "lightgbm",
    "src/softmargin/integrations/boosting/xgboost.py": "xgboost",
    "src/softmargin/integrations/lightning.py": "lightning",
    "src/softmargin/integrations/skorch.py": "skorch",
    "src/softmargin/integrations/torchmetrics.py": "torchmetrics",
    "src/softmargin/integrations/transformers": "transformers",
    "docs/integrations/accelerate.md": "accelerate",
    "docs/integrations/boosting.md": "lightgbm",
    "docs/integrations/export.md": "onnxscript",
    "docs/integrations/lightning.md": "lightning",
    "docs/integrations/loggers.md": "tensorboard",
    "docs/integrations/skorch.md": "skorch",
    "docs/integrations/torchmetrics.md": "torchmetrics",
    "docs/integrations/transformers.md": "transformers",
    "tests/integrations/test_accelerate.py": "accelerate",
    "tests/integrations/test_lightning.py": "lightning",
    "tests/integrations/test_skorch.py": "skorch",
    "tests/integrations/test_torchmetrics.py": "torchmetrics",
    "tests/integrations/test_transformers.py": "transformers",
    "tests/integrations/test_transformers_heads.py": "transformers",
    "tests/integrations/tiny_transformers.py": "transformers",
}

MANY = 12  # cases of one test

# programs that draw: tests/test_gallery.py runs them
collect_ignore_glob = ["docs/gallery/*.py", "docs/images/*.py"]
collect_ignore = [path for path, framework in NEEDS.items() if find_spec(framework) is None]


def is_slow(path: Path) -> bool:
    """Return whether a file needs a framework, whose import takes seconds, or is of the docs."""
    return any(path.is_relative_to(ROOT / each) for each in (*NEEDS, "docs"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing that is slow where slow tests are left out."""
    fast = config.getoption("markexpr") == "not slow"
    return True if fast and is_slow(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in files that are slow, and most cases of tests that have very many."""
    cases = defaultdict(list)
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        elif item.get_closest_marker("slow") is None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for alike in cases.values():
        for item in alike if len(alike) > MANY else ():
            if zlib.crc32(item.nodeid.encode()) % 4:
                item.add_marker(pytest.mark.slow)
