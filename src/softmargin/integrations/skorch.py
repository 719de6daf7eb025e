"""skorch: criteria and margin heads in scikit-learn's estimators and searches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from softmargin import catalogue
from softmargin.heads import Head
from softmargin.integrations._extras import need
from softmargin.integrations._following import as_schedules, go_to
from softmargin.schedules import Schedule, Schedules

skorch = need("skorch", "skorch", "1.0")
callbacks = need("skorch.callbacks", "skorch", "1.0")


class MarginNetClassifier(skorch.NeuralNetClassifier):  # type: ignore[name-defined]
    """``NeuralNetClassifier`` that gives margin heads their target and knows the temperature.

    In training, a module whose ``forward`` has an argument ``target`` is given the labels, and what
    its head adds to the loss is added. ``predict_proba`` is the softmax of the logits over the
    criterion's τ. The criterion is ``GradientDecayLoss`` unless another is given; its arguments are
    ``criterion__beta`` and so on, in a search as well.

    Args:
        module: a module or its class, such as :class:`HeadModule`.
        criterion: a criterion of :mod:`softmargin.losses`.
        **options: those of ``skorch.NeuralNetClassifier``.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from sklearn.model_selection import GridSearchCV
        >>> from softmargin.integrations.skorch import HeadModule, MarginNetClassifier
        >>> X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
        >>> y = (X[:, 0] > 0).astype("int64")
        >>> net = MarginNetClassifier(
        ...     HeadModule, module__features=torch.nn.Linear(4, 8), module__num_classes=2,
        ...     module__head="CosFaceHead", module__scale=8.0, max_epochs=5, verbose=0,
        ... )
        >>> grid = {"criterion__beta": [0.5, 1.0, 5.0], "module__margin": [0.0, 0.2]}
        >>> search = GridSearchCV(net, grid, cv=2, scoring="neg_log_loss").fit(X, y)
        >>> sorted(search.best_params_)
        ['criterion__beta', 'module__margin']
    """

    def __init__(self, module: Any, *args: Any, criterion: Any = None, **options: Any) -> None:
        """Take another criterion than skorch's, which expects probabilities."""
        if criterion is None:
            from softmargin.losses import GradientDecayLoss as criterion
        super().__init__(module, *args, criterion=criterion, **options)

    def train_step_single(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Train on a batch, with the target for a module that takes one."""
        if "target" not in inspect.signature(self.module_.forward).parameters:
            for name, module in self.module_.named_modules():
                if isinstance(module, Head) and module.needs_target:
                    raise ValueError(
                        f"module must have an argument target in forward for its {name}, a "
                        f"{type(module).__name__}, but has none: forward(self, x, target=None)."
                    )
            return super().train_step_single(batch, **fit_params)  # type: ignore[no-any-return]
        self._set_training(True)
        inputs, target = skorch.dataset.unpack_data(batch)
        target = skorch.utils.to_tensor(target, device=self.device)
        logits = self.infer(inputs, target=target, **fit_params)
        loss = self.get_loss(logits, target, X=inputs, training=True)
        added = getattr(self.module_, "added_loss", None)
        if isinstance(added, Tensor):
            loss = loss + added
        loss.backward()
        return {"loss": loss, "y_pred": logits}

    def _get_predict_nonlinearity(self) -> Callable[[Any], Any]:
        if self.predict_nonlinearity == "auto" and isinstance(self.criterion_, nn.CrossEntropyLoss):
            return partial(class_probabilities, criterion=self.criterion_)
        found: Callable[[Any], Any] = super()._get_predict_nonlinearity()
        return found


def class_probabilities(logits: Tensor, criterion: nn.Module) -> Tensor:
    """Return the softmax of logits over a criterion's temperature τ, if it has one."""
    tau = getattr(criterion, "tau", 1.0)
    with torch.no_grad():
        return (logits / tau).softmax(-1).to(logits.dtype)


class HeadModule(nn.Module):
    """A network that ends in features, and a head by its name, as one module.

    Args:
        features: a module that returns features, of which every instance takes a copy, or a
            function that makes one.
        num_classes: number of classes, C.
        head: the name of a head in the catalogue, or its class.
        in_features: size D of a feature vector; by default that of the last layer that has a size.
        **options: the head's own arguments, such as ``margin``.

    Example:
        >>> import torch
        >>> from softmargin.integrations.skorch import HeadModule
        >>> module = HeadModule(torch.nn.Linear(4, 8), 3, "arcface", margin=0.2)
        >>> module.head
        ArcFaceHead(in_features=8, num_classes=3, scale=64, margin=0.2, beyond='monotone')
    """

    added_loss: Tensor | None

    def __init__(
        self,
        features: nn.Module | Callable[[], nn.Module],
        num_classes: int,
        head: str | type[Head] = "linear",
        in_features: int | None = None,
        **options: Any,
    ) -> None:
        """Copy or make the network, and make the head."""
        super().__init__()
        self.features = copy.deepcopy(features) if isinstance(features, nn.Module) else features()
        made: Any = catalogue.find_head(head).module if isinstance(head, str) else head
        size = _size_of(self.features) if in_features is None else in_features
        self.head: Head = made(size, num_classes, **options)
        self.added_loss = None

    def forward(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Return logits, with the head's margin where a target is given."""
        features = self.features(x)
        self.added_loss = None if target is None else self.head.added_loss(features, target)
        logits: Tensor = self.head(features, target)
        return logits


def _size_of(network: nn.Module) -> int:
    """Return the size of what a network returns, from its last layer that says it."""
    for module in (network, *reversed(list(network.modules()))):
        size = getattr(module, "out_features", None)
        if isinstance(size, int):
            return size
    raise ValueError("in_features must be given: no layer of features says its out_features.")


class MoveSettings(callbacks.Callback):  # type: ignore[name-defined]
    """Move settings of criterion or head with every batch.

    The criterion exists once the net is initialised, so a function makes the schedules. A net that
    goes on training (``partial_fit``, or after ``load_params`` with its history) goes on with the
    schedules.

    Args:
        make: a function of the net that returns a schedule or several.

    Example:
        >>> from softmargin.integrations.skorch import MoveSettings
        >>> from softmargin.schedules import Linear
        >>> callback = MoveSettings(
        ...     lambda net: Linear(net.criterion_, "beta", start=0.1, end=1.0, steps=100)
        ... )
    """

    def __init__(self, make: Callable[[Any], Schedule | Schedules | Iterable[Schedule]]) -> None:
        """Keep the function."""
        self.make = make

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **options: Any) -> None:
        """Make the schedules and go to the batch that training starts from."""
        self.schedules_ = as_schedules(self.make(net))
        trained = [
            batch for epoch in net.history for batch in epoch["batches"] if "train_loss" in batch
        ]
        go_to(self.schedules_, len(trained))

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **_: Any) -> None:
        """Go on with the schedules after a batch of training."""
        if training:
            self.schedules_.step()
