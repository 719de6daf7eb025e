"""Leave out the modules and pages of frameworks that are not installed."""

from importlib.util import find_spec

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
}

collect_ignore = [path for path, framework in NEEDS.items() if find_spec(framework) is None]
