"""A head of one Gaussian per class."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softmargin._docs import document_arguments
from softmargin._settings import Setting
from softmargin.functional._fused_gaussian import gaussian_logits
from softmargin.functional._plain_directions import full_precision
from softmargin.functional._products import Products
from softmargin.functional.angular import check_vectors, target_index
from softmargin.functional.margins import at_least_float32, with_target
from softmargin.heads.base import HEAD_ARGUMENTS, Head


@document_arguments(
    HEAD_ARGUMENTS,
    margin="α of at least 0.",
    likelihood="λ of at least 0, the weight of the likelihood term in :meth:`added_loss`.",
)
class GaussianHead(Head):
    r"""One Gaussian per class, with equal priors (large-margin Gaussian mixture, LGM).

    With means μ_k (``weight``) and diagonal covariances Λ_k = diag(exp ``log_variance``),

    .. math:: z_k = -d_k - \tfrac12 \log\det\Lambda_k, \quad
              d_k = \tfrac12 (x - \mu_k)^\top \Lambda_k^{-1} (x - \mu_k)

    In training the target's distance is multiplied by 1 + α. The softmax of the logits of
    inference is the posterior of the mixture. To keep features near their means, add
    :meth:`added_loss`, which is λ·:meth:`likelihood_loss`, to the loss; the trainer does so. The
    authors' growth of α is :func:`softmargin.schedules.lgm_annealing`.

    Shape:
        features (..., D), target (...) or None, logits (..., C) in at least float32.

    Example:
        >>> import torch
        >>> from softmargin.heads import GaussianHead
        >>> head = GaussianHead(8, 3, likelihood=0.1)
        >>> x, target = torch.randn(5, 8), torch.tensor([0, 1, 2, 0, 1])
        >>> loss = torch.nn.functional.cross_entropy(head(x, target), target)
        >>> loss = loss + head.added_loss(x, target)
    """

    margin: Setting = Setting(inclusive=True)
    likelihood: Setting = Setting(inclusive=True, neutral=0.0)
    needs_target = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        margin: float | Tensor = 0.1,
        likelihood: float | Tensor = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, num_classes, device, dtype)
        self.margin = margin
        self.likelihood = likelihood

    def make_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Make the means and the variances, empty."""
        super().make_parameters(device, dtype)
        self.log_variance = nn.Parameter(torch.empty_like(self.weight))

    def reset_parameters(self) -> None:
        """Draw the means anew and set all variances to 1."""
        super().reset_parameters()
        nn.init.zeros_(self.log_variance)

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the log-densities of the classes, up to a constant."""
        with full_precision(features):
            return log_densities(features, self.weight, self.log_variance)

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the log-densities, the target's with a longer distance."""
        with full_precision(features):
            margin = self.current("margin")
            return with_margin(features, self.weight, self.log_variance, index, margin)

    def fused_logits(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return the logits of training by the compiled kernel, or None where it declines."""
        margin = self.current("margin", number=True)
        if type(margin) is not float:  # learned, or not to be seen
            return None

        def plain(x: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
            index = target_index(x, self.num_classes, target, self.ignore_index)
            return with_margin(x, mean, log_variance, index, margin)

        return gaussian_logits(
            features, self.weight, self.log_variance, target, margin, self.ignore_index, plain
        )

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the log-densities as inner products of (x, x²), with those of the targets."""
        with full_precision(features):
            x, mean = at_least_float32(features), at_least_float32(self.weight)
            log_variance = at_least_float32(self.log_variance)
            own = None
            if index is not None:
                distance, half_log_det = self.distance(x, index)
                own = -(1 + self.current("margin", number=True)) * distance - half_log_det
                own = own.unsqueeze(-1).to(x.dtype)
            centre = mean.detach().mean(0)
            x, mean = x - centre, mean - centre
            precision = (-log_variance).exp()
            weighted = mean * precision
            constant = (mean * weighted).sum(-1) + log_variance.sum(-1)
            weight = torch.cat([weighted, -0.5 * precision], 1)
            return Products(torch.cat([x, x.square()], 1), weight, -0.5 * constant, own)

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the log-densities, all with a longer distance."""
        margin = self.current("margin")
        half_log_det = 0.5 * at_least_float32(self.log_variance).sum(-1)
        return (1 + margin) * self.inference_logits(features) + margin * half_log_det

    def distance(self, features: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return d_c and half the log-determinant of each sample's own class."""
        with full_precision(features):
            return distance_of(features, self.weight, self.log_variance, index)

    def added_loss(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return λ·:meth:`likelihood_loss`, or None for λ = 0."""
        likelihood = self.current("likelihood")
        if not isinstance(likelihood, Tensor):  # known to be 0
            return None
        loss = self.likelihood_loss(features, target)
        return likelihood.to(loss.dtype) * loss

    def log_likelihood(self, features: Tensor, target: Tensor) -> Tensor:
        """Return the log-density of each sample under its own class's Gaussian."""
        check_vectors(features, self.in_features)
        index = target_index(features, self.num_classes, target)
        distance, half_log_det = self.distance(features, index)
        return -distance - half_log_det - 0.5 * self.in_features * math.log(2 * math.pi)

    def likelihood_loss(self, features: Tensor, target: Tensor) -> Tensor:
        """Return the mean of d_c + ½ log det Λ_c, the term that LGM adds with a weight λ."""
        check_vectors(features, self.in_features)
        if self.is_soft(features, target):
            return -(target * self.inference_logits(features)).sum(-1).mean()
        index = target_index(features, self.num_classes, target, self.ignore_index)
        known = target.long() != self.ignore_index
        distance, half_log_det = self.distance(features, index)
        return (distance + half_log_det).masked_fill(~known, 0.0).sum() / known.sum()


def log_densities(features: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the log-densities of all classes, up to a constant."""
    x, mean = at_least_float32(features), at_least_float32(mean)
    log_variance = at_least_float32(log_variance)
    # distances do not see a shift; near the means less is lost in the squares below
    centre = mean.detach().mean(0)
    x, mean = x - centre, mean - centre
    precision = (-log_variance).exp()
    weighted = mean * precision
    constant = (mean * weighted).sum(-1) + log_variance.sum(-1)
    squares = F.linear(x.square(), precision, constant)
    return F.linear(x, weighted) - 0.5 * squares


def with_margin(
    features: Tensor, mean: Tensor, log_variance: Tensor, index: Tensor, margin: float | Tensor
) -> Tensor:
    """Return the log-densities, the target's with a distance that is 1 + α times as long."""
    features = at_least_float32(features)  # used twice: round the sum of the gradients
    logits = log_densities(features, mean, log_variance)
    distance, half_log_det = distance_of(features, mean, log_variance, index)
    own = -(1 + margin) * distance - half_log_det
    return with_target(logits, index, -1, own.unsqueeze(-1))


def distance_of(
    features: Tensor, mean: Tensor, log_variance: Tensor, index: Tensor
) -> tuple[Tensor, Tensor]:
    """Return d_c and half the log-determinant of each sample's own class."""
    rows = index.squeeze(-1)
    log_variance = at_least_float32(log_variance)[rows]
    apart = at_least_float32(features) - at_least_float32(mean)[rows]
    distance = 0.5 * (apart.square() * (-log_variance).exp()).sum(-1)
    return distance, 0.5 * log_variance.sum(-1)
