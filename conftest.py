"""Leave out programs, and what needs a framework: if it is missing, or slow tests are left out."""

from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# what needs which framework
NEEDS = {
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

# programs that draw: tests/test_gallery.py runs them
collect_ignore_glob = ["docs/gallery/*.py", "docs/images/*.py"]
collect_ignore = [path for path, framework in NEEDS.items() if find_spec(framework) is None]


def needs_framework(path: Path) -> bool:
    """Return whether a file, or the folder it is in, needs a framework."""
    return any(path.is_relative_to(ROOT / each) for each in NEEDS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave frameworks alone where slow tests are left out: importing them takes seconds."""
    fast = config.getoption("markexpr") == "not slow"
    return True if fast and needs_framework(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a framework as slow."""
    for item in items:
        if needs_framework(item.path):
            item.add_marker(pytest.mark.slow)
