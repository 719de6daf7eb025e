"""Sequence classification with a margin head that receives its labels."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softmargin import catalogue
from softmargin._settings import ModuleWithSettings
from softmargin.heads import Head
from softmargin.integrations.transformers.loss import ComputeLoss

KEY = "softmargin"  # in the model's configuration
DEFAULTS: Mapping[str, Any] = {
    "head": "linear",
    "head_options": {},
    "loss": "gradient_decay",
    "loss_options": {},
}


@functools.cache
def margin_classifier(base: type[Any]) -> type[Any]:
    """Return a ``...ForSequenceClassification`` with a head and a criterion of this library.

    The class is ``base`` with its last layer replaced: everything before it, the configuration,
    ``from_pretrained`` and ``save_pretrained`` are as before, and checkpoints of ``base`` load. In
    training the labels go to the head, the loss is that of the logits with the margin, divided by
    Trainer's ``num_items_in_batch``, and ``logits`` are those without it, for metrics to see.

    Besides the configuration, the class takes by name, in its constructor and ``from_pretrained``:

    - ``head`` and ``head_options``: the name of a head in the catalogue, and its arguments,
    - ``loss`` and ``loss_options``: the name of a criterion, and its arguments.

    They are kept in the configuration. The parts are ``model.margin_head`` and ``model.criterion``;
    :class:`MarginCallback` can move their settings.

    Args:
        base: a class of Transformers for sequence classification.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> from softmargin.integrations.transformers import margin_classifier
        >>> config = BertConfig(
        ...     hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16,
        ...     vocab_size=50, num_labels=3,
        ... )
        >>> model = margin_classifier(BertForSequenceClassification)(
        ...     config, head="ArcFaceHead", head_options={"margin": 0.2}, loss_options={"beta": 5.0}
        ... )
        >>> model.margin_head
        ArcFaceHead(in_features=16, num_classes=3, scale=64, margin=0.2, beyond='monotone')
        >>> model.criterion
        GradientDecayLoss(beta=5, tau=1, floored=False)
    """

    @functools.wraps(base.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _forward(self, functools.partial(base.forward, self, *args), kwargs)

    name = f"Margin{base.__name__}"
    members = {
        "__doc__": f"``{base.__name__}`` with a head and a criterion of softmargin.",
        "__module__": "softmargin.integrations.transformers",
        "__qualname__": name,
        "forward": forward,
        "accepts_loss_kwargs": True,
    }
    return type(name, (_MarginClassifier, base), members)


class _MarginClassifier:
    """What the classes of :func:`margin_classifier` add to their base."""

    def __init__(self, config: Any, *args: Any, **options: Any) -> None:
        own = {key: options.pop(key) for key in DEFAULTS if key in options}
        super().__init__(config, *args, **options)  # type: ignore[call-arg]
        chosen = {**DEFAULTS, **getattr(config, KEY, {}), **own}
        setattr(config, KEY, chosen)
        model: Any = self
        path, layer = _last_layer(model, config.num_labels)
        head: Any = catalogue.find_head(chosen["head"]).module
        made = head(layer.in_features, config.num_labels, **chosen["head_options"])
        self._place = path
        model.set_submodule(path, LabelledHead(made))
        model.criterion = catalogue.find_loss(chosen["loss"]).module(**chosen["loss_options"])
        names = [f"{path}.head.{name}" for name in made.settings]
        names += [f"criterion.{name}" for name in model.criterion.settings]
        # a margin of 0.35 in bfloat16 would be another one
        kept = getattr(self, "_keep_in_fp32_modules_strict", None) or ()
        model._keep_in_fp32_modules_strict = {*kept, *names}

    @property
    def margin_head(self) -> Head:
        """The head, whose settings may be set or moved by a schedule."""
        wrapped: Any = self
        head: Head = wrapped.get_submodule(self._place).head
        return head

    def _init_weights(self, module: nn.Module) -> None:
        """Draw what no checkpoint had; settings are as they were given or loaded."""
        if not isinstance(module, ModuleWithSettings):
            super()._init_weights(module)  # type: ignore[misc]
            return
        own = list(module.parameters(recurse=False))
        if own and not all(getattr(each, "_is_hf_initialized", False) for each in own):
            before = {name: getattr(module, name).clone() for name in module.settings}
            module.reset_parameters()
            for name, value in before.items():
                setattr(module, name, value)

    def _move_missing_keys_from_meta_to_device(
        self, missing_keys: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Give settings that a checkpoint did not have their values, not empty memory."""
        model: Any = self
        for path, module in model.named_modules():
            if not isinstance(module, ModuleWithSettings):
                continue
            for name in module.settings:
                value = module._given.get(name)
                if f"{path}.{name}" in missing_keys and value is not None:
                    setattr(module, name, torch.as_tensor(value, dtype=torch.float64, device="cpu"))
                    missing_keys = missing_keys - {f"{path}.{name}"}
        super()._move_missing_keys_from_meta_to_device(  # type: ignore[misc]
            missing_keys, *args, **kwargs
        )


class LabelledHead(nn.Module):
    """A head in the place of a model's last layer, which hands it features alone.

    With labels it returns the logits of training and of inference side by side, so that whatever
    the model picks of them (the last token of a sequence) it picks of both.
    """

    def __init__(self, head: Head) -> None:
        """Keep the head; labels come with each call of the model."""
        super().__init__()
        self.head = head
        self.labels: Tensor | None = None
        self.added: Tensor | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Return logits (..., C), or (..., 2C) where there are labels."""
        if self.labels is None:
            if self.training and self.head.needs_target:
                raise ValueError(
                    f"labels must be given to the model in training, because "
                    f"{type(self.head).__name__} needs them, but got None: leave out Trainer's "
                    "compute_loss_func, which keeps them from the model, and choose its loss by "
                    "name; call eval() for inference."
                )
            return self.head(features)  # type: ignore[no-any-return]
        labels = self.labels
        if features.ndim == 3:  # a sequence, of which the model picks a token afterwards
            labels = labels.unsqueeze(1).expand(-1, features.shape[1], *labels.shape[1:])
        logits = self.head(features, labels)
        self.added = self.head.added_loss(features, labels)
        with torch.no_grad():
            plain = self.head.inference_logits(features)
        return torch.cat([logits, plain], -1)


def _forward(model: Any, forward: Any, kwargs: dict[str, Any]) -> Any:
    """Call a model with its labels at the head, and add the loss to what it returns."""
    labels, items = kwargs.pop("labels", None), kwargs.pop("num_items_in_batch", None)
    as_dict = kwargs.pop("return_dict", None)
    as_dict = model.config.return_dict if as_dict is None else as_dict
    place: LabelledHead = model.get_submodule(model._place)
    place.labels = labels if model.training else None
    try:
        outputs = forward(**kwargs, return_dict=True)
    finally:
        place.labels = None
    found = dict(outputs)
    if labels is not None:
        logits, *plain = found["logits"].split(model.config.num_labels, -1)
        labels = labels.to(logits.device)
        loss = ComputeLoss(model.criterion)(logits, labels, items)
        added, place.added = place.added, None
        if added is not None:
            share = 1.0 if items is None else len(labels) / items
            loss = loss + added * share
        found = {"loss": loss, **found, "logits": plain[0] if plain else logits}
    result = type(outputs)(**found)
    return result if as_dict else result.to_tuple()


def _last_layer(model: nn.Module, num_labels: int) -> tuple[str, nn.Linear]:
    """Return the path and the layer that makes a model's logits."""
    found = None
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear) and module.out_features == num_labels:
            found = path, module
    if found is None:
        raise ValueError(
            f"base must end in an nn.Linear of {num_labels} labels, but "
            f"{type(model).__name__} has none."
        )
    return found
