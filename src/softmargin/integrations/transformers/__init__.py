"""Hugging Face Transformers: any criterion in the ``Trainer``, schedules, calibration, heads."""

from typing import Any

from softmargin.integrations._extras import need

need("transformers", "transformers", "5.0")

from softmargin.integrations.transformers.callback import MarginCallback  # noqa: E402
from softmargin.integrations.transformers.loss import ComputeLoss, compute_loss  # noqa: E402
from softmargin.integrations.transformers.metrics import EvaluationMetrics  # noqa: E402
from softmargin.integrations.transformers.model import margin_classifier  # noqa: E402

__all__ = [
    "ComputeLoss",
    "EvaluationMetrics",
    "MarginCallback",
    "compute_loss",
    "margin_classifier",
]


def __getattr__(name: str) -> Any:
    """Return ``margin_classifier(Model)`` by its name ``MarginModel``, as unpickling needs it."""
    if name.startswith("Margin") and name.endswith("ForSequenceClassification"):
        import transformers

        return margin_classifier(getattr(transformers, name.removeprefix("Margin")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
