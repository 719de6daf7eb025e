"""What all heads share: one signature, and the two ways to call them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings, describe
from softmargin.functional._checks import check_count, check_probabilities
from softmargin.functional._products import Products
from softmargin.functional.angular import check_vectors, target_index
from softmargin.heads._loss import loss_of_head

# the arguments that all heads have
HEAD_ARGUMENTS = {
    "in_features": "size of a feature vector, D.",
    "num_classes": "number of classes, C.",
    "device": "where the parameters are made.",
    "dtype": "of which type they are.",
}

COMPUTING = (
    *("forward", "training_logits", "inference_logits", "margin_function"),
    *("directions", "enlarge_angle", "distance"),
)
"""Methods that say what the logits of training are."""


class Head(ModuleWithSettings):
    """Base of all heads: features to logits, in the place of the last ``nn.Linear``.

    ``head(features)`` gives the logits of inference, ``head(features, target)`` those of training,
    with the margin at the target's entry. Targets equal to ``ignore_index`` are accepted; what
    their logits are does not matter to a loss that ignores them.

    A target may also hold class probabilities of shape (..., C), as mixup, cutmix and smoothed
    labels do: then every logit is the mean of the one with and the one without the margin, with
    the weights p and 1 - p of its class. All of it on one class is what its index gives.
    """

    ignore_index = -100
    least_classes: ClassVar[int] = 2
    needs_target: ClassVar[bool] = False
    """Whether training without a target would silently leave out what the head is for."""
    autocasts: ClassVar[bool] = False
    """Whether autocast lowers the precision of the logits."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Make one weight per class, of shape (C, D), initialised as in ``nn.Linear``."""
        super().__init__()
        check_count("in_features", in_features, 1)
        check_count("num_classes", num_classes, self.least_classes)
        self.in_features = in_features
        self.num_classes = num_classes
        self.make_parameters(device, dtype)
        self.reset_parameters()

    def __init_subclass__(cls, **options: Any) -> None:
        """Forget the kernel in classes that compute something else than their parent."""
        super().__init_subclass__(**options)
        own = vars(cls)
        if "fused_logits" not in own and any(name in own for name in COMPUTING):
            cls.fused_logits = Head.fused_logits  # type: ignore[method-assign]

    def make_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Make the parameters, empty."""
        shape = self.num_classes, self.in_features
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Draw the parameters anew; settings get their first values back."""
        super().reset_parameters()
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, features: Tensor, target: Tensor | None = None) -> Tensor:
        """Return logits of shape (..., C) for features of shape (..., D)."""
        check_vectors(features, self.in_features)
        if target is None:
            if self.training and self.needs_target:
                raise ValueError(
                    f"target must be given to {type(self).__name__} in training mode, but got "
                    "None; call eval() on the head for the logits of inference."
                )
            return self.inference_logits(features)
        if self.is_soft(features, target):
            return self.soft_logits(features, target)
        if (logits := self.fused_logits(features, target)) is not None:
            return logits
        index = target_index(features, self.num_classes, target, self.ignore_index)
        return self.training_logits(features, index)

    def inference_logits(self, features: Tensor) -> Tensor:
        """Return the logits without a margin."""
        raise NotImplementedError

    def training_logits(self, features: Tensor, index: Tensor) -> Tensor:
        """Return the logits with a margin at ``index``, which keeps the class dimension."""
        return self.inference_logits(features)

    def fused_logits(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return the logits of training by the compiled kernel, or None where it declines.

        It declines what is not a class, too, so that there is one place that says what is wrong.
        """
        return None

    def logits_as_target(self, features: Tensor) -> Tensor:
        """Return the logit of every class as it would be if that class were the target.

        A head of your own need not define it: this works for all, with C calls where there is a
        margin.
        """
        if type(self).training_logits is Head.training_logits:
            return self.inference_logits(features)
        shape = (*features.shape[:-1], 1)
        columns = []
        for number in range(self.num_classes):
            index = torch.full(shape, number, dtype=torch.int64, device=features.device)
            columns.append(self.training_logits(features, index)[..., number])
        return torch.stack(columns, -1)

    def loss(self, features: Tensor, target: Tensor, criterion: nn.Module) -> Tensor:
        """Return ``criterion(head(features, target), target)`` without holding all logits.

        Value and gradients are the same. The logits are made some rows at a time, with very many
        classes some classes at a time, which saves memory from tens of thousands of classes on,
        and turned into their gradient at once. They are made as a whole for class probabilities
        where there is a margin, for learned settings of the criterion, for a linear head under
        autocast, and under compilers and function transforms. :meth:`added_loss` is not part of it.

        Args:
            features: of shape (N, D).
            target: class indices of shape (N,), or class probabilities of shape (N, C).
            criterion: a loss of :mod:`softmargin.losses` on logits, or an ``nn.CrossEntropyLoss``.

        Example:
            >>> import torch
            >>> from softmargin import GradientDecayLoss
            >>> from softmargin.heads import ArcFaceHead
            >>> head, criterion = ArcFaceHead(16, 50_000), GradientDecayLoss(beta=5.0)
            >>> features, target = torch.randn(8, 16), torch.randint(0, 50_000, (8,))
            >>> head.loss(features, target, criterion).backward()
        """
        check_vectors(features, self.in_features)
        return loss_of_head(self, features, target, criterion)

    def products(self, features: Tensor, index: Tensor | None) -> Products:
        """Return the logits of training as inner products, for :meth:`loss`.

        Args:
            features: of shape (N, D).
            index: the targets, of shape (N, 1), or None where nothing is special at a target.
        """
        raise RuntimeError(
            f"{type(self).__name__} has no loss without logits: "
            "use criterion(head(features, target), target)."
        )

    def is_soft(self, features: Tensor, target: Tensor) -> bool:
        """Whether a target holds class probabilities for these features."""
        if not (isinstance(target, Tensor) and target.is_floating_point()):
            return False
        return target.shape == (*features.shape[:-1], self.num_classes)

    def soft_logits(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """Return the logits of training for class probabilities of shape (..., C)."""
        check_probabilities(probabilities)
        plain, own = self.inference_logits(features), self.logits_as_target(features)
        return torch.lerp(plain, own, probabilities.to(plain.dtype))

    def added_loss(self, features: Tensor, target: Tensor) -> Tensor | None:
        """Return a term that the head adds to any loss, or None, as most heads do."""
        return None

    def extra_repr(self) -> str:
        """Show the sizes and the settings."""
        parts = [f"in_features={self.in_features}", f"num_classes={self.num_classes}"]
        parts += [f"{name}={describe(getattr(self, name))}" for name in self.settings]
        return ", ".join(parts)
