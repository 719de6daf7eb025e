"""Center loss: features of one class pulled together, to be added to any loss."""

from __future__ import annotations

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings, Setting, describe
from softmargin.functional import _checks as checks
from softmargin.functional.margins import at_least_float32

UPDATES = ("gradient", "running")


class CenterLoss(ModuleWithSettings):
    r"""Pull every feature vector towards the center of its class (Wen et al., 2016; AG eq. 5-6).

    .. math:: \frac{\lambda}{2} \frac{1}{N} \sum_i \lVert x_i - c_{y_i} \rVert^2

    The mean is over the samples that are not ignored; if all are, it is NaN with zero gradients,
    as in ``F.cross_entropy``. Memory is that of the features and the centers, O(N·D + C·D).

    The centers move in one of two ways:

    - ``update="gradient"``: they are an ``nn.Parameter``, moved by the optimiser together with
      the network, and start from a normal distribution of standard deviation 0.01.
    - ``update="running"``: they are a buffer that starts at 0 and moves by the original's rule
      after the loss of each batch in training mode; no gradient flows into them. With
      n_j samples of class j in the batch,

      .. math:: c_j \leftarrow c_j -
                \mathrm{rate} \cdot \frac{\sum_{i: y_i = j} (c_j - x_i)}{1 + n_j}

      When ``torch.distributed`` is initialised the sums run over the batches of all processes,
      each of which must call the loss once per step.

    Half-precision features are computed with in float32, and so is the loss; the centers keep
    their dtype.

    Args:
        in_features: D, the length of a feature vector.
        num_classes: C, the number of centers.
        lam: λ of at least 0; kept in ``state_dict``, may be set at any time.
        update: ``"gradient"`` or ``"running"``.
        rate: how far running centers move, above 0; kept in ``state_dict``, may be set at any
            time. Centers that learn by gradient do not use it.
        ignore_index: a target value that contributes nothing.
        device: where the centers are.
        dtype: floating-point dtype of the centers.

    Shape:
        - features: (N, D).
        - target: (N) class indices.
        - output: a scalar.

    Example:
        >>> import torch
        >>> from softmargin.center import CenterLoss
        >>> center_loss = CenterLoss(2, 3, lam=0.1, update="running")
        >>> features, target = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([0, 2])
        >>> center_loss(features, target)
        tensor(0.6500)
        >>> center_loss.centers
        tensor([[0.7500, 1.0000],
                [0.0000, 0.0000],
                [0.0000, 0.2500]])

    Reference:
        Wen, Zhang, Li, Qiao: A discriminative feature learning approach for deep face
        recognition. ECCV 2016.
    """

    lam: Setting = Setting(inclusive=True)
    rate: Setting = Setting()
    centers: Tensor

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        lam: float | Tensor = 0.003,
        *,
        update: str = "gradient",
        rate: float | Tensor = 0.5,
        ignore_index: int = -100,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("in_features", in_features), ("num_classes", num_classes)):
            if (
                isinstance(value, bool)
                or not isinstance(value, int)
                or not 1 <= value < checks.LARGE
            ):
                raise ValueError(f"{name} must be a whole number of at least 1, but got {value!r}.")
        checks.check_choice("update", update, UPDATES)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point dtype, but got {dtype}.")
        self.in_features = in_features
        self.num_classes = num_classes
        self.update = update
        self.ignore_index = ignore_index
        centers = torch.empty(num_classes, in_features, device=device, dtype=dtype)
        if update == "gradient":
            self.centers = nn.Parameter(centers)
        else:
            self.register_buffer("centers", centers)
        self.lam = lam
        self.rate = rate
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Put the centers back: near 0 if they are learned, at 0 if they run.

        Running centers start the same on all processes, which then stay together. Settings get
        their first values back.
        """
        super().reset_parameters()
        if self.update == "gradient":
            nn.init.normal_(self.centers, std=0.01)
        else:
            nn.init.zeros_(self.centers)

    def forward(self, features: Tensor, target: Tensor) -> Tensor:
        """Return the loss, and move running centers when in training mode."""
        none_ignored = self._check(features, target)
        moves = self.update == "running" and self.training
        if moves and not torch.compiler.is_compiling():
            _refuse_transforms()
        index = target.long()
        ignored = None if none_ignored else index == self.ignore_index
        if ignored is not None:
            index = index.masked_fill(ignored, 0)
        gaps = at_least_float32(features) - at_least_float32(self.centers.index_select(0, index))
        if ignored is None:
            mean = gaps.square().sum() / len(gaps)
        else:
            gaps = gaps.masked_fill(ignored.unsqueeze(1), 0.0)
            mean = gaps.square().sum() / (~ignored).sum()
        if moves:
            self._move_centers(gaps.detach(), index, ignored)
        return mean * (cast(Tensor, self.current("lam")).to(mean.dtype) / 2)

    def _move_centers(self, gaps: Tensor, index: Tensor, ignored: Tensor | None) -> None:
        """Move the centers by the gaps x - c of a batch, with those of all processes."""
        with torch.no_grad():
            seen = torch.ones_like(gaps[:, :1])
            if ignored is not None:
                seen = seen.masked_fill(ignored.unsqueeze(1), 0.0)
            # sums and counts side by side, so that one message carries both
            sums = gaps.new_zeros(self.num_classes, self.in_features + 1)
            sums.index_add_(0, index, torch.cat([gaps, seen], dim=1))
            if dist.is_available() and dist.is_initialized():
                dist.all_reduce(sums)
            rate = cast(Tensor, self.current("rate")).to(sums.dtype)
            self.centers.add_(rate * sums[:, :-1] / (1 + sums[:, -1:]))

    def _check(self, features: Tensor, target: Tensor) -> bool:
        """Raise unless features and target fit; return whether surely none is ignored."""
        checks.check_tensor("features", features)
        checks.check_tensor("target", target)
        if not features.is_floating_point():
            raise TypeError(f"features must be floating-point, but got {features.dtype}.")
        if features.ndim != 2 or features.shape[1] != self.in_features:
            raise ValueError(
                f"features must have shape (N, {self.in_features}), "
                f"but got {tuple(features.shape)}."
            )
        if target.shape != features.shape[:1]:
            raise ValueError(
                f"target must have shape ({features.shape[0]},) for these features, "
                f"but got {tuple(target.shape)}."
            )
        if target.dtype not in (torch.int64, torch.uint8):
            raise TypeError(
                "target must hold class indices as torch.int64 or torch.uint8, "
                f"but got {target.dtype}."
            )
        return checks.check_classes(target, self.num_classes, self.ignore_index)

    def extra_repr(self) -> str:
        """Show the arguments, and ``ignore_index`` if it is not the default."""
        parts = [f"{self.in_features}, {self.num_classes}, lam={describe(self.lam)}"]
        parts.append(f"update={self.update!r}")
        if self.update == "running":
            parts.append(f"rate={describe(self.rate)}")
        if self.ignore_index != -100:
            parts.append(f"ignore_index={self.ignore_index}")
        return ", ".join(parts)


def _refuse_transforms() -> None:
    """Raise inside ``torch.func``, where a module's state may not change."""
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            'update="running" cannot move its centers inside a torch.func transform: '
            'call .eval() first, or choose update="gradient".'
        )
