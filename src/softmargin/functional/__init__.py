"""Pure functions on tensors: margins, divergences and the losses on logits."""

from softmargin.functional import _operators as _operators  # registers them, before any compiling
from softmargin.functional.adaptive import adaptive_focal_loss
from softmargin.functional.angular import angles, cosine_logits
from softmargin.functional.divergences import logit_divergence
from softmargin.functional.hinge import (
    hard_bias_softmax_loss,
    max_hinge_loss,
    mean_hinge_loss,
)
from softmargin.functional.linear import linear_gradient_decay_loss
from softmargin.functional.margins import embedded_bias, hard_log_odds, log_odds
from softmargin.functional.softmax import (
    focal_loss,
    gradient_decay_loss,
    modified_softmax_loss,
    regularized_softmax_loss,
    soft_margin_softmax_loss,
)

__all__ = [
    "adaptive_focal_loss",
    "angles",
    "cosine_logits",
    "embedded_bias",
    "focal_loss",
    "gradient_decay_loss",
    "hard_bias_softmax_loss",
    "hard_log_odds",
    "linear_gradient_decay_loss",
    "log_odds",
    "logit_divergence",
    "max_hinge_loss",
    "mean_hinge_loss",
    "modified_softmax_loss",
    "regularized_softmax_loss",
    "soft_margin_softmax_loss",
]
