"""What all criteria on logits share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from softmargin._settings import ModuleWithSettings, describe
from softmargin.functional import _checks as checks
from softmargin.functional._criterion import LOSS_ARGUMENTS

# the arguments that all criteria have
CRITERION_ARGUMENTS = {
    **LOSS_ARGUMENTS,
    "tau": "temperature above 0; kept in ``state_dict``, may be set at any time.",
}


class LogitLoss(ModuleWithSettings, nn.CrossEntropyLoss):
    """Base of all criteria on logits: a function of :mod:`softmargin.functional` with its options.

    It is an ``nn.CrossEntropyLoss``, so that code that looks for one (skorch, for the softmax in
    ``predict_proba``) knows that the model's outputs are logits.

    A subclass names its ``function``, its ``settings`` (the numbers kept in ``state_dict``) and
    passes its own arguments on by name.
    """

    function: ClassVar[Callable[..., Tensor]]
    _unwrapped: ClassVar[Callable[..., Tensor]]
    weight: Tensor | None

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the function itself: what looks for weights in the wrong place has nothing to do.

        Arguments are named here.
        """
        super().__init_subclass__(**options)
        if "function" in vars(cls):
            cls._unwrapped = staticmethod(getattr(cls.function, "__wrapped__", cls.function))

    def __init__(
        self,
        own: Mapping[str, Any],
        weight: Tensor | None,
        ignore_index: int,
        reduction: str,
        label_smoothing: float,
        learn_beta: bool = False,
    ) -> None:
        """Check and keep the loss's own arguments and those of ``nn.CrossEntropyLoss``."""
        super().__init__()
        checks.check_choice("reduction", reduction, checks.REDUCTIONS)
        checks.check_flag("learn_beta", learn_beta)
        self._own = tuple(own)
        for name, value in own.items():
            if name == "beta" and learn_beta:
                self.settings[name].learn_logarithm(self, value)
            else:
                setattr(self, name, value)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits against class indices or class probabilities."""
        return type(self)._unwrapped(input, target, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return what the function takes beside input and target, as it is now."""
        values = self.current_values(self._own)
        values["weight"] = self._buffers["weight"]
        values["ignore_index"] = self.ignore_index
        values["reduction"] = self.reduction
        values["label_smoothing"] = self.label_smoothing
        return values

    def extra_repr(self) -> str:
        """Show the loss's own arguments, and the shared ones that are not at their default."""
        shared = {
            "compensate": False,
            "ignore_index": -100,
            "reduction": "mean",
            "label_smoothing": 0.0,
        }
        own = {n: getattr(self, n) for n in self._own if n not in shared}
        parts = [f"{n}={describe(value, self.learns(n))}" for n, value in own.items()]
        if self.weight is not None:
            parts.append(f"weight={describe(self.weight)}")
        for name, default in shared.items():
            if (value := getattr(self, name, default)) != default:
                parts.append(f"{name}={value!r}")
        return ", ".join(parts)
